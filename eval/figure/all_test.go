package figure

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hashSpecs are figures a, b, c...: one for each harness.
func hashSpecs(harnesses ...*hashing) []*Spec {
	var specs []*Spec
	for i, harness := range harnesses {
		s := hashSpec(harness)
		s.Name = string(rune('a' + i))
		specs = append(specs, s)
	}
	return specs
}

// failAt fails the n-th measurement.
func failAt(n int, err error) func(int, Cell) error {
	return func(i int, _ Cell) error {
		if i == n {
			return err
		}
		return nil
	}
}

// interruptAt runs figures until the harness has measured n times.
func interruptAt(t *testing.T, harness *hashing, n int, specs []*Spec, o Options) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	harness.measured = nil
	harness.fail = func(i int, _ Cell) error {
		if i == n {
			interrupt()
		}
		return nil
	}
	if _, err := RunAll(ctx, specs, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted run ends with %v", err)
	}
	harness.fail, harness.measured = nil, nil
}

// latest is the folder of the last run.
func latest(t *testing.T, root string) string {
	t.Helper()
	folder, err := Latest(root)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestManyFiguresGoOn(t *testing.T) {
	o := Options{Dir: t.TempDir(), Quick: true}
	a, b := new(hashing), new(hashing)
	specs := hashSpecs(a, b)
	interruptAt(t, b, 7, specs, o)
	if text := read(t, filepath.Join(o.Dir, ReportName)); !strings.Contains(text, "; interrupted.") {
		t.Error("the report of an interrupted run does not say so")
	}
	result, err := RunAll(t.Context(), specs, o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(result.Kept, []string{"a"}) || !slices.Equal(result.Made, []string{"b"}) ||
		len(b.measured) != 15-6 {
		t.Errorf("%+v; %d cells measured again", result, len(b.measured))
	}
	result, err = RunAll(t.Context(), specs, o)
	if err != nil || len(result.Made) != 2 || len(result.Kept) != 0 {
		t.Errorf("a new run: %+v, %v", result, err)
	}
}

// A continued run repeats cells that failed or were not possible, also in finished figures, and
// counts those that fail again.
func TestWhatFailedIsTriedAgain(t *testing.T) {
	o := Options{Dir: t.TempDir(), Quick: true}
	once, always, missing, last := &hashing{
		fail: failAt(2, errors.New("broken")),
	}, new(hashing), new(hashing), new(hashing)
	always.fail = func(_ int, cell Cell) error {
		if cell == (Cell{"first", 16}) {
			return errors.New("broken for good")
		}
		return nil
	}
	missing.fail = func(_ int, cell Cell) error {
		if cell.Series == "second" {
			return &Unable{Why: "not installed"}
		}
		return nil
	}
	specs := hashSpecs(once, always, missing, last)
	interruptAt(t, last, 7, specs, o)
	for _, harness := range []*hashing{once, always, missing} {
		harness.measured = nil
	}
	once.fail, missing.fail = nil, nil // as installed since
	result, err := RunAll(t.Context(), specs, o)
	if err != nil || !slices.Equal(result.Made, []string{"a", "c", "d"}) || len(result.Kept) != 0 ||
		len(result.Failed) != 1 ||
		!strings.HasPrefix(result.Failed[0], "b: ") {
		t.Errorf("%+v, %v", result, err)
	}
	if len(once.measured) != 1 || len(always.measured) != 3 || len(missing.measured) != 2*3 {
		t.Errorf("measured %d, %d and %d cells again", len(once.measured), len(always.measured), len(missing.measured))
	}
	for _, s := range specs {
		outcome, err := Load(result.Folder, s)
		if err != nil || outcome.End == nil || len(outcome.Unable) > 0 || (len(outcome.Failed) > 0) != (s.Name == "b") {
			t.Errorf("%s: %+v, %v", s.Name, outcome, err)
		}
	}
}

// A figure made by another kind of run in between is none of the run that goes on.
func TestFiguresOfAnotherKindAreNotKept(t *testing.T) {
	o := Options{Dir: t.TempDir(), Quick: true}
	a, b := new(hashing), new(hashing)
	specs := hashSpecs(a, b)
	interruptAt(t, b, 7, specs, o)
	if _, err := Run(t.Context(), specs[0], Options{Dir: latest(t, o.Dir)}); err != nil { // in full mode
		t.Fatal(err)
	}
	if result, err := RunAll(t.Context(), specs, o); err != nil || !slices.Equal(result.Made, []string{"a", "b"}) {
		t.Errorf("%+v, %v", result, err)
	}
}
