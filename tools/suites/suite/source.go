package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Module returns the directory with the sources of a module. The module is named PATH@VERSION, or by its path alone if
// the module in dir requires it.
func Module(t *testing.T, dir, name string) string {
	t.Helper()
	c := exec.Command("go", "mod", "download", "-json", name)
	c.Dir = dir
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(Output(t, c), &downloaded); err != nil {
		t.Fatal(err)
	}
	return downloaded.Dir
}

// Available downloads a module, or says why it cannot.
func Available(dir, name string) error { return quietly(dir, "mod", "download", name) }

// Download downloads the modules that the tests of a package need, or says why it cannot.
func Download(dir, name string, options ...string) error {
	return quietly(dir, append(append([]string{"list", "-deps", "-test"}, options...), "./"+name)...)
}

// quietly runs the go command, and returns what it said only if it fails.
func quietly(dir string, arguments ...string) error {
	c := exec.Command("go", arguments...)
	c.Dir = dir
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("%v: %w\n%s", c, err, &said)
	}
	return nil
}

// Copy copies a module's sources into a directory that does not exist.
func Copy(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Remove removes what an earlier run left.
func Remove(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// Add copies a file into a directory of sources.
func Add(t *testing.T, file, dir string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, filepath.Base(file)), text)
}

// write writes a file of a copy. Files of the module cache are read-only.
func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Append adds text at the end of a file of a copy.
func Append(t *testing.T, path string, text []byte) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, append(before, text...))
}

// Edit replaces strings in a file of a copy. Each must be there once.
func Edit(t *testing.T, path string, replacements ...[2]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, r := range replacements {
		if n := strings.Count(text, r[0]); n != 1 {
			t.Fatalf("%s has %d times %q: adapt the test to this version", path, n, r[0])
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	write(t, path, []byte(text))
}

// Compile compiles the tests of a package into a program.
func Compile(t *testing.T, dir, name, program string, options ...string) {
	t.Helper()
	compile(t, dir, append([]string{"test", "-c", "-vet=off", "-o", program}, options...), "./"+name)
}

// Build compiles the program in a directory.
func Build(t *testing.T, dir, program string) {
	t.Helper()
	compile(t, dir, []string{"build", "-buildvcs=false", "-o", program}, ".")
}

// compile compiles without optimization, which takes half the time.
func compile(t *testing.T, dir string, command []string, name string) {
	t.Helper()
	c := exec.Command("go", append(command, "-trimpath", "-gcflags=all=-N -l", "-ldflags=-s -w", name)...)
	c.Dir = dir
	Output(t, c)
}
