package figure

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
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

// folders are those of all runs, by age.
func folders(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, filepath.Join(root, entry.Name()))
		}
	}
	return names
}

// A run that begins anew says why, and changes no file of an earlier one.
func TestEachRunHasItsFolder(t *testing.T) {
	root, said := t.TempDir(), ""
	say := func(text string) { said = text }
	full, quick := Options{Dir: root, Say: say}, Options{Dir: root, Quick: true, Say: say}
	again := quick
	again.Again = true
	harness := new(hashing)
	specs := hashSpecs(new(hashing), harness)
	before := make(map[string]map[string]string) // contents by folder
	all := func(o Options, why string) {
		t.Helper()
		for _, folder := range folders(t, root) {
			before[folder] = contents(t, folder)
		}
		said = ""
		result, err := RunAll(t.Context(), specs, o)
		if err != nil || len(result.Made) != 2 || before[result.Folder] != nil || result.Folder != latest(t, root) {
			t.Errorf("%+v, %v", result, err)
		}
		if !strings.Contains(said, why) || why == "" && said != "" {
			t.Errorf("said %q, want %q", said, why)
		}
		for folder, files := range before {
			if !maps.Equal(contents(t, folder), files) {
				t.Errorf("a run in %s changed %s", result.Folder, folder)
			}
		}
	}
	all(full, "")
	all(quick, "no run of all figures was interrupted; what was measured stays in "+latest(t, root))
	interruptAt(t, harness, 7, specs, full)
	all(quick, "it was measured in full mode")
	interruptAt(t, harness, 7, specs, quick)
	all(again, "as asked")
	interruptAt(t, harness, 7, specs, quick)
	unfinished := unfinishedPath(latest(t, root))
	changed := strings.Replace(read(t, unfinished), `"binary":"`, `"binary":"other`, 1)
	if err := os.WriteFile(unfinished, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	all(quick, "another build measured it")
	if n := len(folders(t, root)); n != 8 {
		t.Errorf("%d folders of 8 runs", n)
	}
	if outcomes, err := Publish(folders(t, root)[0], specs); err != nil || len(outcomes) != 2 {
		t.Errorf("the first run can't be drawn again: %v", err)
	}
}

// The report of the last run is found where it was before runs had folders, and its links lead to the
// files of that run; the summary too.
func TestLastRunIsFound(t *testing.T) {
	root := t.TempDir()
	specs := hashSpecs(new(hashing), new(hashing))
	specs[0].Quick.Xs = []float64{256}
	for range 2 {
		if _, err := RunAll(t.Context(), specs, Options{Dir: root, Quick: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, report := range []string{filepath.Join(root, ReportName), filepath.Join(latest(t, root), ReportName)} {
		links := regexp.MustCompile(`href="([^"#]+)"`).FindAllStringSubmatch(read(t, report), -1)
		if len(links) != 2*4 {
			t.Errorf("%s: %d links to files", report, len(links))
		}
		for _, link := range links {
			if _, err := os.Stat(filepath.Join(filepath.Dir(report), link[1])); err != nil {
				t.Errorf("%s: %v", report, err)
			}
		}
	}
	if read(t, filepath.Join(root, SummaryName)) != read(t, filepath.Join(latest(t, root), SummaryName)) {
		t.Error("the summary is not that of the last run")
	}
}

// A single figure belongs to the last run, of which a folder is made where there is none.
func TestSingleFigureJoinsTheLastRun(t *testing.T) {
	root := t.TempDir()
	first, err := FolderOfFigure(root)
	if err != nil || first != latest(t, root) || !strings.HasSuffix(first, "-"+runPart) {
		t.Fatal(first, err)
	}
	if second, err := FolderOfFigure(root); second != first || err != nil {
		t.Errorf("%s after %s, %v", second, first, err)
	}
	result, err := RunAll(t.Context(), hashSpecs(new(hashing)), Options{Dir: root, Quick: true})
	if err != nil || result.Folder == first {
		t.Fatal(result, err)
	}
	if third, err := FolderOfFigure(root); third != result.Folder || err != nil {
		t.Errorf("%s, not the last run, %v", third, err)
	}
	if err := os.RemoveAll(result.Folder); err != nil { // by a user: the link leads nowhere
		t.Fatal(err)
	}
	if _, err := FolderOfFigure(root); err != nil {
		t.Error(err)
	}
}

// Runs that begin in the same second have folders of their own, which sort by their beginning.
func TestFoldersOfOneSecond(t *testing.T) {
	root, began := t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var made []string
	for range 3 {
		folder, err := newFolder(root, mode(true), began)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, filepath.Base(folder))
	}
	want := []string{"20260102T030405Z-quick", "20260102T030405Z-quick-2", "20260102T030405Z-quick-3"}
	if !slices.Equal(made, want) {
		t.Errorf("%q, want %q", made, want)
	}
}

// The directory of results of an earlier release, without folders, is one run that can be drawn again.
func TestFolderOfOneRun(t *testing.T) {
	root := t.TempDir()
	if IsFolder(root) {
		t.Error("nothing is a run")
	}
	if _, err := RunAll(t.Context(), hashSpecs(new(hashing)), Options{Dir: root, Quick: true}); err != nil {
		t.Fatal(err)
	}
	if IsFolder(root) || !IsFolder(latest(t, root)) {
		t.Error("the folder of a run is not told from that of all runs")
	}
}
