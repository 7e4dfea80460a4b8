package figure

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// contents are those of all files in a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[name] = read(t, filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// An interrupted move loses no file, and the next user of the directory finishes it.
func TestInterruptedMoveIsFinished(t *testing.T) {
	measured := t.TempDir()
	specs := hashSpecs(&hashing{texts: []Text{{Name: "example", Title: "Example", Text: "n1 <- n2\n"}}}, new(hashing))
	if _, err := RunAll(t.Context(), specs, Options{Dir: measured}); err != nil {
		t.Fatal(err)
	}
	names, err := existing(measured, movable(specs))
	if err != nil || len(names) != 2*4+1+3 {
		t.Fatalf("%q is there, %v", names, err)
	}
	for next, use := range map[string]func(dir string) error{
		"all figures": func(dir string) error {
			_, err := startBatch(specs, Options{Dir: dir, Quick: true})
			return err
		},
		"one figure": func(dir string) error {
			_, err := Run(t.Context(), specs[0], Options{Dir: dir, Quick: true})
			return err
		},
		"the report": func(dir string) error {
			_, err := Publish(dir, specs)
			return err
		},
	} {
		for _, stop := range names {
			dir := copied(t, measured)
			older := filepath.Join(dir, "before-full", "older")
			inTheWay := filepath.Join(dir, movingDir, stop)
			if err := writeAll(older, filepath.Join(inTheWay, "file")); err != nil {
				t.Fatal(err)
			}
			if to, err := setAside(dir, specs); err == nil {
				t.Fatalf("moved to %s past %s", to, inTheWay)
			}
			if _, err := os.Stat(older); err != nil {
				t.Errorf("%s: what was moved before is gone before all of what replaces it is there: %v", stop, err)
			}
			if err := os.RemoveAll(inTheWay); err != nil {
				t.Fatal(err)
			}
			if err := use(dir); err != nil {
				t.Fatalf("%s after a move that stopped at %s: %v", next, stop, err)
			}
			if !maps.Equal(contents(t, filepath.Join(dir, "before-full")), contents(t, measured)) {
				t.Errorf("%s after a move that stopped at %s: before-full is not what was measured", next, stop)
			}
		}
	}
}

// A run of which a part has been moved is not one to go on with.
func TestRunThatIsBeingMovedIsNotGoneOnWith(t *testing.T) {
	o, harness := Options{Dir: t.TempDir(), Quick: true}, new(hashing)
	specs := hashSpecs(new(hashing), harness)
	interruptAt(t, harness, 7, specs, o)
	inTheWay := batchPath(filepath.Join(o.Dir, movingDir)) // the last to be moved
	if err := writeAll(filepath.Join(inTheWay, "file")); err != nil {
		t.Fatal(err)
	}
	if to, err := setAside(o.Dir, specs); err == nil {
		t.Fatalf("moved to %s past %s", to, inTheWay)
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if resumed, err := startBatch(specs, o); resumed || err != nil {
		t.Errorf("goes on with it: %v, %v", resumed, err)
	}
	if _, err := os.Stat(batchPath(filepath.Join(o.Dir, "before-part"))); err != nil {
		t.Errorf("it is not in before-part: %v", err)
	}
}

// copied is a copy of a directory.
func copied(t *testing.T, of string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(of)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeAll writes empty files, and makes the directories that they need.
func writeAll(names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A complete run is one to a build that knows more figures, too, and after one of its figures was
// made again in another mode.
func TestCompleteRunStaysOne(t *testing.T) {
	dir := t.TempDir()
	if _, err := RunAll(t.Context(), hashSpecs(new(hashing), new(hashing)), Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	more := hashSpecs(new(hashing), new(hashing), new(hashing))
	if _, err := Run(t.Context(), more[0], Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	if to, err := setAside(dir, more); err != nil || filepath.Base(to) != "before-full" {
		t.Errorf("it was moved to %q, %v", to, err)
	}
}
