package verified

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// Reports are those of the object that is there: a file of another object, and one that was cut off, do not count.
func TestReports(t *testing.T) {
	tree := t.TempDir()
	for _, dir := range []string{Dir, filepath.Dir(Object)} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(text string) string {
		path := filepath.Join(tree, Object)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := HashOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	old := Report{Kernel: "6.12-arm64", Object: compile("old"), Processed: map[string]int{"nq_ingress": 1}}
	now := Report{Kernel: "6.1-amd64", Object: compile("new"), Processed: map[string]int{"nq_ingress": 2, "nq_egress": 3}}
	for _, r := range []*Report{&old, &now} {
		if err := Write(tree, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tree, Dir, "6.12-amd64"+suffix), []byte(`{"object"`), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Read(tree)
	if want := []Report{now}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
