package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestManifest: the committed artefacts were compiled from the committed sources.
func TestManifest(t *testing.T) {
	if err := verifyAll(root); err != nil {
		t.Fatal(err)
	}
}

// TestChangesAreNoticed: no source or artefact can change, come or go without the manifest.
func TestChangesAreNoticed(t *testing.T) {
	change := func(name string, edit func(path string) error) error {
		dir := t.TempDir()
		for _, f := range folders {
			if err := os.CopyFS(filepath.Join(dir, f.path), os.DirFS(filepath.Join(root, f.path))); err != nil {
				t.Fatal(err)
			}
		}
		if err := edit(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return verifyAll(dir)
	}
	longer := func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, "x\n"...), 0o644)
	}
	add := func(path string) error { return os.WriteFile(path, nil, 0o644) }
	for _, c := range []struct {
		name string
		edit func(string) error
	}{{"p4/state.p4", longer}, {"p4/netcraq.spec", longer}, {"p4/another.p4", add}, {"p4/route.p4", os.Remove},
		{"eval/p4/netchain_cells.p4", longer}, {"eval/p4/netchain.spec", longer}, {"p4/bmv2/netcraq.json", longer},
		{"eval/p4/another.p4", add}, {"eval/p4/bmv2/netchain.json", longer},
	} {
		if err := change(c.name, c.edit); err == nil {
			t.Errorf("a change of %s is not noticed", c.name)
		}
	}
	if err := change("p4/state.p4", func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, "// another word\n"...), 0o644)
	}); err != nil {
		t.Errorf("a comment changed, but: %v", err)
	}
	if err := change("p4/state.p4", func(string) error { return nil }); err != nil {
		t.Errorf("nothing changed, but: %v", err)
	}
}
