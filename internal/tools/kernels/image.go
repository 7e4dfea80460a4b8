package main

import (
	"bytes"
	"context"
	_ "embed" // the script of the machine
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp/verified"
)

// guest is the first process of the machine.
//
//go:embed guest.sh
var guest []byte

// modules are those that the lab and the plane need, without dependencies in any of the kernels.
var modules = []string{"drivers/net/veth.ko"}

// image is the boot image of a machine.
type image struct {
	kernel, initramfs string
}

// newImage unpacks the packages and puts the files into an initramfs.
func newImage(ctx context.Context, k kernel, linux, busybox string, programs map[string]string) (*image, error) {
	root := filepath.Join(cache, k.name())
	if err := os.RemoveAll(root); err != nil {
		return nil, err
	}
	for _, p := range []string{linux, busybox} {
		if text, err := exec.CommandContext(ctx, "dpkg-deb", "-x", p, root).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w: %s", p, err, text)
		}
	}
	found, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%s holds %d kernels, not 1", linux, len(found)))
	}
	i := &image{kernel: found[0], initramfs: filepath.Join(cache, k.name()+".cpio")}
	file, err := os.Create(i.initramfs)
	if err != nil {
		return nil, err
	}
	w := &cpio{w: file}
	for _, dir := range []string{"bin", "dev", "proc", "sys", "run", "tmp", "etc", "modules"} {
		w.add(dir, fs.ModeDir|0o755, nil)
	}
	w.add("init", 0o755, guest)
	w.file(filepath.Base(verified.Object), verified.Object) // for the plane's tests
	w.file("bin/busybox", filepath.Join(root, "bin", "busybox"))
	for name, path := range programs {
		w.file("bin/"+name, path)
	}
	for _, m := range modules {
		content, err := readModule(ctx, root, m)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		w.add("modules/"+filepath.Base(m), 0o644, content)
	}
	w.add("TRAILER!!!", 0, nil)
	return i, errors.Join(w.err, file.Close())
}

// readModule reads a module of the unpacked package, which may be compressed.
func readModule(ctx context.Context, root, name string) ([]byte, error) {
	found, err := filepath.Glob(filepath.Join(root, "lib/modules/*/kernel", name+"*"))
	if err != nil || len(found) != 1 {
		return nil, errors.Join(err, fmt.Errorf("the package has %d modules %s, not 1", len(found), name))
	}
	if !strings.HasSuffix(found[0], ".xz") {
		return os.ReadFile(found[0])
	}
	return exec.CommandContext(ctx, "xz", "-dc", found[0]).Output()
}

// cpio writes an archive in the format that the kernel unpacks, newc.
type cpio struct {
	w   io.Writer
	ino int
	err error // the first one
}

// file adds a program.
func (c *cpio) file(name, path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	c.add(name, 0o755, content)
}

func (c *cpio) add(name string, mode fs.FileMode, content []byte) {
	if c.err != nil {
		return
	}
	c.ino++
	const regular, directory = 0o100000, 0o040000
	kind := regular
	if mode.IsDir() {
		kind = directory
	}
	var b bytes.Buffer
	b.WriteString("070701")
	for _, field := range []int{
		c.ino, kind | int(mode.Perm()), 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0,
	} {
		fmt.Fprintf(&b, "%08X", field)
	}
	b.WriteString(name + "\x00")
	pad := func() { b.Write(make([]byte, -b.Len()&3)) }
	pad() // every part starts at a multiple of 4, as the archive does
	b.Write(content)
	pad()
	_, c.err = c.w.Write(b.Bytes())
}
