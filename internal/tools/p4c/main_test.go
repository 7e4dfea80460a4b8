package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestManifest: the committed artefacts were compiled from the committed sources.
func TestManifest(t *testing.T) {
	if err := verify(filepath.Join("../../..", folder)); err != nil {
		t.Fatal(err)
	}
}

// TestChangesAreNoticed: no source or artefact can change, come or go without the manifest.
func TestChangesAreNoticed(t *testing.T) {
	from := filepath.Join("../../..", folder)
	change := func(name string, edit func(path string) error) error {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		if err := edit(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return verify(dir)
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
	}{{"state.p4", longer}, {"netcraq.spec", longer}, {"another.p4", add}, {"route.p4", os.Remove},
		{"baseline/netchain_cells.p4", longer}, {"baseline/netchain.spec", longer}, {"bmv2/netcraq.json", longer}, {"baseline/another.p4", add},
	} {
		if err := change(c.name, c.edit); err == nil {
			t.Errorf("a change of %s is not noticed", c.name)
		}
	}
	if err := change("state.p4", func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, "// another word\n"...), 0o644)
	}); err != nil {
		t.Errorf("a comment changed, but: %v", err)
	}
	if err := change("state.p4", func(string) error { return nil }); err != nil {
		t.Errorf("nothing changed, but: %v", err)
	}
}
