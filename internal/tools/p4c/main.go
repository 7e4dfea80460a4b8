// Command p4c compiles the programs in p4/ and eval/p4/ with p4c's backends for DPDK and v1model, or checks that the
// committed artefacts were compiled from the sources beside them. manifest.json in each folder lists its files and the
// compilers.
//
//	p4c -check    checks the hashes of sources and artefacts in the manifest; needs no compiler
//	p4c           compiles again, and fails if the result differs from the committed artefacts
//	p4c -write    compiles, and writes artefacts and manifest
//	p4c -only X   leaves out the compilers other than X
//	p4c -p4info   writes the P4Info of the product's programs; needs no compiler
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
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

const manifest = "manifest.json"

// folder has programs, the files that they include, and a manifest.
type folder struct {
	path     string   // from the project's directory
	programs []string // the sources that each backend compiles
}

// The papers' programs include files of the product's.
var (
	product = folder{"p4", []string{"netcraq.p4", "swap.p4"}}
	papers  = folder{"eval/p4", []string{"netchain.p4", "netcraqpaper.p4"}}
	folders = []folder{product, papers}
)

// Manifest is a folder's manifest.json.
type Manifest struct {
	Sources  []File   `json:"sources"`
	Backends []Output `json:"backends"`
}

// Output is what one compiler made of the sources.
type Output struct {
	Compiler  string   `json:"compiler"`
	Version   string   `json:"version"`
	Flags     []string `json:"flags"`
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
	info := flag.Bool("p4info", false, "write the P4Info of the compiled programs")
	sizes := flag.Bool("sizes", false, "print what the compiled programs need")
	only := flag.String("only", "", "the only `compiler` to run")
	flag.Parse()
	var err error
	switch {
	case *sizes:
		err = writeSizes(os.Stdout, ".")
	case *info:
		err = product.writeInfo()
	case *check:
		err = verifyAll(".")
	default:
		for _, f := range folders {
			err = errors.Join(err, f.run(*only, *write))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "p4c:", err)
		os.Exit(1)
	}
}

// run compiles, and writes the result or compares it with the committed one.
func (f *folder) run(only string, write bool) error {
	m, err := load(f.path)
	if err != nil {
		return err
	}
	ran := false
	for i := range backends {
		b := &backends[i]
		if only != "" && only != b.compiler {
			continue
		}
		ran = true
		if len(b.of(f)) == 0 {
			continue
		}
		out, err := b.output(f, write)
		if err != nil {
			return err
		}
		if write {
			m.put(out)
		} else if err := m.compare(out); err != nil {
			return err
		}
	}
	if !ran {
		return fmt.Errorf("-only %s: no such compiler", only)
	}
	if !write {
		return verify(f.path)
	}
	if f.path == product.path {
		if err := f.writeInfo(); err != nil {
			return err
		}
	}
	if m.Sources, err = sources(f.path); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.path, manifest), append(text, '\n'), 0o644)
}

// of returns the output of a compiler, nil if there is none.
func (m *Manifest) of(compiler string) *Output {
	for i := range m.Backends {
		if m.Backends[i].Compiler == compiler {
			return &m.Backends[i]
		}
	}
	return nil
}

func (m *Manifest) put(out *Output) {
	if was := m.of(out.Compiler); was != nil {
		*was = *out
		return
	}
	m.Backends = append(m.Backends, *out)
}

func (m *Manifest) compare(out *Output) error {
	committed := m.of(out.Compiler)
	if committed == nil {
		return fmt.Errorf("the manifest has no output of %s: run `make p4-write`", out.Compiler)
	}
	if !reflect.DeepEqual(committed.Artefacts, out.Artefacts) {
		return fmt.Errorf("the output of %s %s differs from the committed artefacts, which %s compiled: "+
			"run `make p4-write` and review the difference", out.Compiler, out.Version, committed.Version)
	}
	return nil
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

// verifyAll compares the files of all folders of a project with their manifests.
func verifyAll(root string) error {
	var errs []error
	for _, f := range folders {
		errs = append(errs, verify(filepath.Join(root, f.path)))
	}
	errs = append(errs, verifyInfo(filepath.Join(root, product.path), product.programs))
	return errors.Join(errs...)
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
	var committed []File
	for _, out := range m.Backends {
		committed = append(committed, out.Artefacts...)
	}
	for _, a := range committed {
		names = append(names, a.File)
	}
	artefacts, err := hashes(dir, names, func(b []byte) []byte { return b })
	if err != nil {
		return err
	}
	return errors.Join(differ("source", m.Sources, now), differ("artefact", committed, artefacts))
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
