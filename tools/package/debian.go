package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// programs are those of a package.
var programs = []string{"netcraq", "netcraq-cni"}

// debian writes the package of an architecture, and returns its name.
func (r *release) debian(generated, arch string) (string, error) {
	contents, err := r.contents(generated, arch)
	if err != nil {
		return "", err
	}
	scripts := filepath.Join(r.root, "tools", "package", "scripts")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "netcraq", Arch: arch, Platform: "linux", Version: r.version, MTime: r.time, DisableGlobbing: true,
		Section: "database", Priority: "optional", Maintainer: "NetCRAQ contributors", Homepage: "https://github.com/netcraq/netcraq",
		Description: "Strongly consistent key-value store in the network's data plane\n" +
			"Nodes answer in the kernel (XDP). Controllers form and repair chains of nodes.\n" +
			"A gateway, a member and a keyspace on disks serve the clients of etcd.",
		License: "Apache-2.0",
		Overridables: nfpm.Overridables{
			Depends: []string{"passwd"}, Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinst"), PreRemove: filepath.Join(scripts, "prerm"),
				PostRemove: filepath.Join(scripts, "postrm"),
			},
		},
	})
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return "", err
	}
	out := new(bytes.Buffer)
	if err := deb.Default.Package(info, out); err != nil {
		return "", err
	}
	name := fmt.Sprintf("netcraq_%s_%s.deb", r.version, arch)
	return name, os.WriteFile(filepath.Join(r.dir, name), out.Bytes(), 0o644)
}

// contents lists the files of a package.
func (r *release) contents(generated, arch string) (files.Contents, error) {
	var all files.Contents
	add := func(source, destination, kind string, mode os.FileMode) {
		all = append(all, &files.Content{Source: source, Destination: destination, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}})
	}
	const plain, program = 0o644, 0o755
	for _, name := range programs {
		add(filepath.Join(r.dir, arch, name), "/usr/bin/"+name, files.TypeFile, program)
	}
	for pattern, to := range map[string]string{
		filepath.Join(r.root, "deploy", "systemd", "*.service"):       "/lib/systemd/system/",
		filepath.Join(r.root, "deploy", "systemd", "*.conf"):          "/usr/share/netcraq/",
		filepath.Join(r.root, "deploy", "prometheus", "*.rules.yaml"): "/usr/share/doc/netcraq/",
		filepath.Join(r.root, "deploy", "chart", "dashboard.json"):    "/usr/share/doc/netcraq/",
		filepath.Join(r.root, "docs", "*.md"):                         "/usr/share/doc/netcraq/",
		filepath.Join(r.root, "clients", "wireshark", "*.lua"):        "/usr/share/doc/netcraq/",
		filepath.Join(generated, "man", "*"):                          "/usr/share/man/man1/",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s: no files, %w", pattern, err)
		}
		for _, file := range found {
			add(file, to+filepath.Base(file), files.TypeFile, plain)
		}
	}
	add(filepath.Join(r.root, "LICENSE"), "/usr/share/doc/netcraq/copyright", files.TypeFile, plain)
	for shell, to := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/netcraq", "zsh": "/usr/share/zsh/vendor-completions/_netcraq",
		"fish": "/usr/share/fish/vendor_completions.d/netcraq.fish",
	} {
		add(filepath.Join(generated, "completions", shell), to, files.TypeFile, plain)
	}
	for name := range settings {
		add(filepath.Join(generated, "config", name+".yaml"), "/etc/netcraq/"+name+".yaml", files.TypeConfigNoReplace, plain)
	}
	add(filepath.Join(r.root, "deploy", "systemd", "etcd.env"), "/etc/netcraq/etcd.env", files.TypeConfigNoReplace, plain)
	return all, nil
}
