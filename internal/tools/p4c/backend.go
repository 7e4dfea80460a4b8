package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// backend is one of p4c's, with a compiler of its own.
type backend struct {
	compiler string   // looked for in PATH
	variable string   // in the environment: the compiler's path, if it is not in PATH
	include  string   // its folder in p4include
	flags    []string // for every program
	programs []string // that it compiles; nil: all of a folder
	artefact func(program string) string
	finish   func(compiled []byte) ([]byte, error) // of the compiler's output; nil: unchanged
}

// includes names p4c's p4include in the environment, where it is not installed.
const includes = "P4C_INCLUDE"

var backends = []backend{
	{
		compiler: "p4c-dpdk", variable: "P4C_DPDK", include: "dpdk",
		// SWX keeps 256 bytes of metadata, and propagated copies make temporaries of all that is assigned twice.
		flags:    []string{"--arch", "psa", "--excludeMidendPasses", "P4::LocalCopyPropagation"},
		artefact: func(program string) string { return strings.TrimSuffix(program, ".p4") + ".spec" },
	},
	{
		compiler: "p4c-bm2-ss", variable: "P4C_BM2_SS", include: "bmv2",
		// Propagated copies make checksums exponentially long.
		flags: []string{
			"--arch", "v1model", "-DNQ_V1MODEL", "-DV1MODEL_VERSION=20200408",
			"--excludeMidendPasses", "P4::LocalCopyPropagation",
		},
		programs: product.programs,
		artefact: v1modelFile,
		finish:   finishV1Model,
	},
}

// of are the programs of a folder that the backend compiles.
func (b *backend) of(f *folder) []string {
	if b.programs == nil {
		return f.programs
	}
	return slices.DeleteFunc(slices.Clone(f.programs), func(p string) bool { return !slices.Contains(b.programs, p) })
}

// output compiles all programs of a folder.
func (b *backend) output(f *folder, write bool) (*Output, error) {
	path, err := b.find()
	if err != nil {
		return nil, err
	}
	version, err := versionOf(path)
	if err != nil {
		return nil, err
	}
	out := &Output{Compiler: b.compiler, Version: version, Flags: b.flags}
	for _, program := range b.of(f) {
		text, err := b.compile(path, f.path, program)
		if err != nil {
			return nil, err
		}
		name := b.artefact(program)
		out.Artefacts = append(out.Artefacts, File{name, sum(text)})
		if write {
			if err := os.WriteFile(filepath.Join(f.path, name), text, 0o644); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (b *backend) find() (string, error) {
	if path := os.Getenv(b.variable); path != "" {
		return path, nil
	}
	path, err := exec.LookPath(b.compiler)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: put it into PATH or name it in %s, and its p4include in %s (docs/p4.md)",
			b.compiler, b.variable, includes)
	}
	return path, nil
}

func versionOf(path string) (string, error) {
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	for line := range strings.Lines(string(out)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Version "); ok {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s --version says no version", path)
}

func (b *backend) compile(path, folder, program string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "p4c")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "out"+filepath.Ext(b.artefact(program)))
	arguments := append(slices.Clone(b.flags), "--Wdisable=unused", "--Wdisable=invalid-header", "--Wdisable=mismatch")
	if include := os.Getenv(includes); include != "" {
		arguments = append(arguments, "-I", filepath.Join(include, b.include), "-I", include)
	}
	c := exec.Command(path, append(arguments, program, "-o", out)...)
	c.Dir = folder
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	text, err := os.ReadFile(out)
	if err == nil && b.finish != nil {
		text, err = b.finish(text)
	}
	return text, err
}
