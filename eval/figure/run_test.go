package figure

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/plot"
)

// hashing is a real harness: it measures how many bytes of a block this machine hashes a second.
type hashing struct {
	measured []Cell
	rounds   []int // of each measurement
	round    int
	texts    []Text                       // that every measurement finds
	fail     func(n int, cell Cell) error // the error of the n-th measurement
	closed   bool
}

func (h *hashing) Measure(ctx context.Context, cell Cell, window time.Duration) (Sample, error) {
	h.measured, h.rounds = append(h.measured, cell), append(h.rounds, h.round)
	if h.fail != nil {
		if err := h.fail(len(h.measured), cell); err != nil {
			return Sample{}, err
		}
	}
	block, began, n := make([]byte, int(cell.X)), time.Now(), 0
	for time.Since(began) < window && ctx.Err() == nil {
		sha256.Sum256(block)
		n++
	}
	return Sample{
		Values: map[string]float64{"hashes_per_s": float64(n) / time.Since(began).Seconds(), "hashes": float64(n)},
		Curves: map[string][]plot.Point{"progress": {{X: 0, Y: 0}, {X: 1, Y: float64(n)}}},
		Texts:  h.texts,
	}, ctx.Err()
}

func (h *hashing) Round(n int)        { h.round = n }
func (h *hashing) Settings() []string { return []string{"SHA-256 of the standard library"} }
func (h *hashing) Close()             { h.closed = true }

// hashSpec is a figure with two series at three places.
func hashSpec(harness *hashing) *Spec {
	plan := Plan{Xs: []float64{16, 256, 4096}, Rounds: 3, Window: time.Millisecond, Budget: time.Minute}
	return &Spec{
		Name: "hashing", Title: "Hashes by the size of the block", Source: Source{Paper: "no paper", Reports: "Nothing."},
		X: Axis{Label: "size, bytes", Log: true},
		Panels: []Panel{
			{Title: "speed", Metric: "hashes_per_s", Label: "hashes/s", Unit: "hashes/s", Log: true},
			{Metric: "progress", Curve: true, Label: "hashes", Across: "time, s"},
		},
		Series: []Series{
			{Name: "first", Role: plot.Ours},
			{Name: "second", Role: plot.NetChain, Has: func(x float64) bool { return x > 16 }},
		},
		Quick: plan, Full: plan,
		Open: func(context.Context, Env) (Harness, error) { return harness, nil },
		Results: func(o *Outcome) []Result {
			ours, other := o.Median("first", 256, "hashes_per_s"), o.Median("second", 256, "hashes_per_s")
			return []Result{
				{
					Metric: "hashes of 256 bytes",
					Unit:   "hashes/s",
					Values: Values{NetChain: other, Ours: ours},
					Mark:   AtLeast(0.001, "second", ours, other),
				},
			}
		},
		Notes: func(o *Outcome) []Note {
			return []Note{{Agrees, "a < b & c"}, {Differs, fmt.Sprintf("%d rounds", o.Rounds())}}
		},
	}
}

func run(t *testing.T, harness *hashing, dir string, o Options) (int, error) {
	t.Helper()
	o.Dir, o.Quick = dir, true
	failed, err := Run(t.Context(), hashSpec(harness), o)
	return failed, err
}

func load(t *testing.T, dir string) *Outcome {
	t.Helper()
	o, err := Load(dir, hashSpec(nil))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestRoundsAreInterleaved(t *testing.T) {
	harness := new(hashing)
	if failed, err := run(t, harness, t.TempDir(), Options{}); failed != 0 || err != nil {
		t.Fatal(failed, err)
	}
	forth := []Cell{{"first", 16}, {"first", 256}, {"second", 256}, {"first", 4096}, {"second", 4096}}
	back := slices.Clone(forth)
	slices.Reverse(back)
	if want := slices.Concat(forth, back, forth); !slices.Equal(harness.measured, want) {
		t.Errorf("measured %v, want %v", harness.measured, want)
	}
	if !harness.closed {
		t.Error("the harness was not closed")
	}
}

func TestSpreadOfRounds(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{5}, Spread{5, 5, 5, 1}},
		{[]float64{3, 1, 2}, Spread{2, 1, 3, 3}},
		{[]float64{4, 1, 3, 2, 100}, Spread{3, 2, 4, 5}},
		{[]float64{1, 2, 3, 4}, Spread{2.5, 1, 3, 4}},
	} {
		if got := spreadOf(slices.Clone(test.values)); got != test.want {
			t.Errorf("%v: %v, want %v", test.values, got, test.want)
		}
	}
}

func TestInterruptedRunGoesOn(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	first := &hashing{fail: func(n int, _ Cell) error {
		if n == 8 {
			interrupt()
			return context.Canceled
		}
		return nil
	}}
	if _, err := Run(ctx, hashSpec(first), Options{Dir: dir, Quick: true}); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted run ends with %v", err)
	}
	appendText(t, path(dir, "hashing"), `{"sample":{"series":"fir`) // as if it had died while it wrote
	second := new(hashing)
	said := ""
	if _, err := run(t, second, dir, Options{Say: func(text string) { said += text }}); err != nil {
		t.Fatal(err)
	}
	if len(second.measured) != 15-7 || !strings.Contains(said, "goes on with 7 measurements") {
		t.Errorf("measured %d cells again, said %q", len(second.measured), said)
	}
	if want := []int{1, 1, 1, 2, 2, 2, 2, 2}; !slices.Equal(second.rounds, want) {
		t.Errorf("the harness was told rounds %v, want %v", second.rounds, want)
	}
	if o := load(t, dir); o.Rounds() != 3 || o.End == nil {
		t.Errorf("%d rounds, ended: %v", o.Rounds(), o.End != nil)
	}
	third := new(hashing) // the run is complete: the next begins anew
	if _, err := run(t, third, dir, Options{}); err != nil || len(third.measured) != 15 {
		t.Errorf("a new run measured %d cells, %v", len(third.measured), err)
	}
}

func TestRunOfSomethingElseBeginsAnew(t *testing.T) {
	for what, change := range map[string]func(*Header){
		"another build":   func(h *Header) { h.Binary = "other" },
		"another machine": func(h *Header) { h.Host.CPUs++ },
		"something else":  func(h *Header) { h.Spec = "other" },
	} {
		dir := t.TempDir()
		header, err := newHeader(hashSpec(nil), true)
		if err != nil {
			t.Fatal(err)
		}
		change(&header)
		j, _, err := open(dir, header, scratch)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.add(Entry{Sample: &Measured{Cell: Cell{"first", 16}}}), j.file.Close()); err != nil {
			t.Fatal(err)
		}
		said, harness := "", new(hashing)
		if _, err := run(t, harness, dir, Options{Say: func(text string) { said += text }}); err != nil {
			t.Fatal(err)
		}
		if len(harness.measured) != 15 || !strings.Contains(said, what) {
			t.Errorf("%s: measured %d cells, said %q", what, len(harness.measured), said)
		}
	}
}

func TestCellThatFailsStopsNoOther(t *testing.T) {
	dir := t.TempDir()
	harness := &hashing{fail: func(_ int, cell Cell) error {
		switch {
		case cell.Series == "second":
			return fmt.Errorf("wrapped: %w", &Unable{Why: "there is none here"})
		case cell.X == 256:
			return errors.New("broken")
		}
		return nil
	}}
	failed, err := run(t, harness, dir, Options{})
	if failed != 3 || err != nil {
		t.Errorf("%d failed, %v", failed, err)
	}
	o := load(t, dir)
	if len(o.Failed) != 3 || len(o.Unable) != 1 || o.Unable[0].Series != "second" || o.Rounds() != 3 {
		t.Errorf("failed %v, unable %v, %d rounds", o.Failed, o.Unable, o.Rounds())
	}
	if n := len(harness.measured); n != 3*3+1 {
		t.Errorf("measured %d times: a series that can't be measured is tried once", n)
	}
	if o.Median("first", 256, "hashes_per_s") != nil || o.Median("first", 16, "hashes_per_s") == nil {
		t.Error("the cell that failed has a median, or another has none")
	}
}

func TestBudgetEndsRounds(t *testing.T) {
	dir := t.TempDir()
	spec := hashSpec(new(hashing))
	spec.Quick.Budget, spec.Quick.Window, spec.Quick.Rounds = 500*time.Millisecond, 20*time.Millisecond, 1000
	if _, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	if o := load(t, dir); !o.End.TimeUp || o.Rounds() < 1 || o.Rounds() > 10 {
		t.Errorf("%d rounds in the time of one or two, time up: %v", o.Rounds(), o.End.TimeUp)
	}
}

// TestFirstRoundIsFinished: a machine on which everything takes longer than planned makes the figure all the same.
func TestFirstRoundIsFinished(t *testing.T) {
	dir := t.TempDir()
	spec := hashSpec(new(hashing))
	spec.Quick.Budget, spec.Quick.Window, spec.Quick.Rounds = 1, time.Millisecond, 3
	if failed, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil || failed != 0 {
		t.Fatal(failed, err)
	}
	if n := load(t, dir).Rounds(); n != 1 {
		t.Errorf("%d rounds were finished, want 1", n)
	}
}

func TestNeedsAreSaid(t *testing.T) {
	dir := t.TempDir()
	spec := hashSpec(new(hashing))
	spec.Needs.CPUs = 1 << 20
	_, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true})
	unable := new(Unable)
	if !errors.As(err, &unable) || !strings.Contains(unable.Why, "CPUs") {
		t.Fatal(err)
	}
	if _, err := Publish(dir, []*Spec{spec}); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(dir, ReportName)); !strings.Contains(text, "needs 1048576 CPUs") {
		t.Error("the report does not say it")
	}
}

// A run that measures nothing, since it is refused, has no harness, or finds nothing possible, takes
// nothing away from an earlier one.
func TestRefusalLeavesWhatWasMeasured(t *testing.T) {
	for name, spoil := range map[string]func(*Spec, *hashing){
		"too few CPUs": func(s *Spec, _ *hashing) { s.Needs.CPUs = 1 << 20 },
		"no harness": func(s *Spec, _ *hashing) {
			s.Open = func(context.Context, Env) (Harness, error) { return nil, errors.New("broken") }
		},
		"not possible": func(_ *Spec, h *hashing) { h.fail = func(int, Cell) error { return &Unable{Why: "not installed"} } },
		"all failed":   func(_ *Spec, h *hashing) { h.fail = func(int, Cell) error { return errors.New("broken") } },
	} {
		dir := t.TempDir()
		if _, err := run(t, new(hashing), dir, Options{}); err != nil {
			t.Fatal(err)
		}
		before, harness, said := read(t, path(dir, "hashing")), new(hashing), ""
		spec := hashSpec(harness)
		spoil(spec, harness)
		_, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true, Say: func(text string) { said += text }})
		if err == nil || !strings.Contains(said, "stays as it is") || read(t, path(dir, "hashing")) != before {
			t.Errorf("%s: %v, said %q; the journal is the same: %v", name, err, said,
				read(t, path(dir, "hashing")) == before)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "raw")); err != nil || len(left) != 1 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

func TestProgressTellsTheTimeLeft(t *testing.T) {
	var all []Progress
	if _, err := run(t, new(hashing), t.TempDir(),
		Options{Progress: func(p Progress) { all = append(all, p) }}); err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	if last.Done != 14 || last.Cells != 15 || last.Left > time.Second || all[0].Left < 50*time.Second {
		t.Errorf("first %+v, last %+v", all[0], last)
	}
}

func TestPublished(t *testing.T) {
	dir := t.TempDir()
	if _, err := run(t, new(hashing), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	other := hashSpec(nil)
	other.Name, other.Title = "other", "Another"
	outcomes, err := Publish(dir, []*Spec{hashSpec(nil), other})
	if err != nil || len(outcomes) != 1 {
		t.Fatal(outcomes, err)
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, filepath.Join(dir, "hashing.csv")))).ReadAll()
	if err != nil || len(rows) != 1+15*(2+2) {
		t.Errorf("%d lines of numbers, %v", len(rows), err)
	}
	var summary []map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, SummaryName))), &summary); err != nil ||
		len(summary) != 1 {
		t.Fatal(summary, err)
	}
	for _, key := range []string{"figure", "metric", "paper", "netchain", "netcraq_published", "ours", "peer", "unit"} {
		if _, ok := summary[0][key]; !ok {
			t.Errorf("the summary has no %q", key)
		}
	}
	if len(summary[0]) != 8 || summary[0]["paper"] != nil || summary[0]["ours"] == nil {
		t.Errorf("summary %v", summary[0])
	}
	page := read(t, filepath.Join(dir, ReportName))
	for _, want := range []string{
		"<svg role=\"img\"", "a &lt; b &amp; c", "3 rounds", "bench figure hashing --quick", "1 of 1 met",
		"SHA-256 of the standard library", "hashing.csv", "Not made yet",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	for _, never := range []string{"http-equiv", "<script", "<link", "src=", "url(", "@import", "<?xml", "%!"} {
		if strings.Contains(page, never) {
			t.Errorf("the report has %q", never)
		}
	}
	if made := outcomes[0].Made(dir); !made.Complete || len(made.Rows) != 10 || len(made.Marks) != 1 ||
		!made.Marks[0].Met {
		t.Errorf("made: %+v", made)
	}
}

func appendText(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
