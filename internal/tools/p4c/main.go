// Command p4c compiles the programs in p4/ with p4c's DPDK backend, or checks that the committed artefacts were compiled
// from the sources beside them. p4/manifest.json lists the files and the compiler.
//
//	p4c -check    checks the hashes of sources and artefacts in the manifest; needs no compiler
//	p4c           compiles again, and fails if the result differs from the committed artefacts
//	p4c -write    compiles, and writes artefacts and manifest
//	p4c -sizes    prints what the compiled programs need, for docs/p4.md; needs no compiler
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

const (
	folder   = "p4"
	manifest = "manifest.json"
	// compiler is looked for in PATH, unless P4C_DPDK names it. P4C_INCLUDE names its p4include, where it is not installed.
	compiler = "p4c-dpdk"
)

// flags are for every program. SWX keeps 256 bytes of metadata, and propagated copies make temporaries of all that is
// assigned twice.
var flags = []string{"--arch", "psa", "--excludeMidendPasses", "P4::LocalCopyPropagation"}

// programs are the sources that are compiled, each to a file of its name with .spec.
var programs = []string{"netcraq.p4", "swap.p4", "baseline/netchain.p4", "baseline/netcraqpaper.p4"}

// Manifest is p4/manifest.json.
type Manifest struct {
	Compiler  string   `json:"compiler"`
	Version   string   `json:"version"`
	Flags     []string `json:"flags"`
	Sources   []File   `json:"sources"`
	Artefacts []File   `json:"artefacts"`
}

// File is a file and its hash. The hash of a source leaves out comments.
type File struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

func main() {
	check := flag.Bool("check", false, "compare hashes only")
	write := flag.Bool("write", false, "write artefacts and manifest")
	sizes := flag.Bool("sizes", false, "print what the compiled programs need")
	flag.Parse()
	err := error(nil)
	if *sizes {
		err = writeSizes(os.Stdout, folder)
	} else {
		err = run(*check, *write)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "p4c:", err)
		os.Exit(1)
	}
}

func run(check, write bool) error {
	if check {
		return verify(folder)
	}
	path, err := find()
	if err != nil {
		return err
	}
	version, err := versionOf(path)
	if err != nil {
		return err
	}
	m := Manifest{Compiler: compiler, Version: version, Flags: flags}
	if m.Sources, err = sources(folder); err != nil {
		return err
	}
	for _, program := range programs {
		spec, err := compile(path, program)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(program, ".p4") + ".spec"
		m.Artefacts = append(m.Artefacts, File{name, sum(spec)})
		if write {
			if err := os.WriteFile(filepath.Join(folder, name), spec, 0o644); err != nil {
				return err
			}
		}
	}
	if write {
		text, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, manifest), append(text, '\n'), 0o644)
	}
	committed, err := load(folder)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(committed.Artefacts, m.Artefacts) {
		return fmt.Errorf("the output of %s %s differs from the committed artefacts, which %s compiled: "+
			"run `make p4-write` and review the difference",
			compiler, version, committed.Version)
	}
	return verify(folder)
}

func find() (string, error) {
	if path := os.Getenv("P4C_DPDK"); path != "" {
		return path, nil
	}
	path, err := exec.LookPath(compiler)
	if err != nil {
		return "",
			fmt.Errorf("%s is not installed: put it into PATH or name it in P4C_DPDK, and its p4include in P4C_INCLUDE (docs/p4.md)", compiler)
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

func compile(path, program string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "p4c")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "out.spec")
	arguments := append(slices.Clone(flags), "--Wdisable=unused", "--Wdisable=invalid-header", "--Wdisable=mismatch")
	if include := os.Getenv("P4C_INCLUDE"); include != "" {
		arguments = append(arguments, "-I", filepath.Join(include, "dpdk"), "-I", include)
	}
	c := exec.Command(path, append(arguments, program, "-o", out)...)
	c.Dir = folder
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	return os.ReadFile(out)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func hashes(dir string, names []string, of func([]byte) []byte) ([]File, error) {
	var files []File
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, sum(of(b))})
	}
	return files, nil
}

// sources are the files of a folder that end with .p4, at any depth, in lexical order.
func sources(dir string) ([]File, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".p4") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return hashes(dir, names, withoutComments)
}

// withoutComments removes the comments of a source, so that changing a comment does not change the hash.
func withoutComments(b []byte) []byte {
	var code []byte
	for line := range bytes.Lines(b) {
		text, _, _ := bytes.Cut(line, []byte("//"))
		if text = bytes.TrimRight(text, " \n"); len(text) > 0 {
			code = append(append(code, text...), '\n')
		}
	}
	return code
}

func load(dir string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifest))
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return m, decoder.Decode(m)
}

// verify compares the files of a folder with its manifest.
func verify(dir string) error {
	m, err := load(dir)
	if err != nil {
		return err
	}
	now, err := sources(dir)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range m.Artefacts {
		names = append(names, a.File)
	}
	artefacts, err := hashes(dir, names, func(b []byte) []byte { return b })
	if err != nil {
		return err
	}
	return errors.Join(differ("source", m.Sources, now), differ("artefact", m.Artefacts, artefacts))
}

func differ(kind string, want, have []File) error {
	var errs []error
	for _, h := range have {
		if !slices.Contains(want, h) {
			errs = append(errs, fmt.Errorf(
				"%s %s is not the one of the manifest: compile with `make p4-write` and commit what it makes", kind, h.File))
		}
	}
	if len(want) != len(have) {
		errs = append(errs, fmt.Errorf("the manifest names %d files of kind %s, there are %d", len(want), kind, len(have)))
	}
	return errors.Join(errs...)
}
