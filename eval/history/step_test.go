package history_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/history"
)

func line(commit, kernel string, figures map[string]float64) history.Line {
	return history.Line{Commit: commit, Figures: figures, Tools: map[history.Tool]string{
		history.Kernel: kernel, history.Clang: "19.1.7", history.Go: "go1.26", history.Arch: "amd64",
	}}
}

func TestSteps(t *testing.T) {
	const processed, words = "processed/nq_ingress", "words"
	for _, test := range []struct {
		name    string
		earlier []history.Line
		now     history.Line
		want    string // steps, then fresh figures
		worse   bool
	}{
		{"first line", nil, line("b", "6.1", map[string]float64{processed: 100}), "fresh " + processed, false},
		{"5 % is no step", []history.Line{line("a", "6.1", map[string]float64{processed: 100})},
			line("b", "6.1", map[string]float64{processed: 105}), "", false},
		{"worse", []history.Line{line("a", "6.1", map[string]float64{processed: 100})},
			line("b", "6.1", map[string]float64{processed: 106}), processed + " since a", true},
		{"better is a step, and not worse", []history.Line{line("a", "6.1", map[string]float64{processed: 100})},
			line("b", "6.1", map[string]float64{processed: 94}), processed + " since a", false},
		{"another kernel is not compared", []history.Line{line("a", "6.1", map[string]float64{processed: 100})},
			line("b", "6.12", map[string]float64{processed: 900}), "fresh " + processed, false},
		{"the last line of this kernel", []history.Line{
			line("a", "6.1", map[string]float64{processed: 100}), line("b", "6.1", map[string]float64{processed: 200}),
			line("c", "6.12", map[string]float64{processed: 500}),
		}, line("d", "6.1", map[string]float64{processed: 101}), processed + " since b", false},
		{"the last line that has the figure", []history.Line{
			line("a", "6.1", map[string]float64{processed: 100}), line("b", "6.1", map[string]float64{words: 5}),
		}, line("c", "6.1", map[string]float64{processed: 200}), processed + " since a", true},
		{"words depend on no kernel and may grow", []history.Line{line("a", "6.1", map[string]float64{words: 100})},
			line("b", "6.12", map[string]float64{words: 200}), words + " since a", false},
		{"from nothing", []history.Line{line("a", "6.1", map[string]float64{processed: 0})},
			line("b", "6.1", map[string]float64{processed: 1}), processed + " since a", true},
		{"nothing stays nothing", []history.Line{line("a", "6.1", map[string]float64{processed: 0})},
			line("b", "6.1", map[string]float64{processed: 0}), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps, fresh := history.Steps(test.earlier, &test.now)
			var got []string
			worse := false
			for _, s := range steps {
				got = append(got, s.Figure+" since "+s.Since)
				worse = worse || s.Worse()
			}
			for _, figure := range fresh {
				got = append(got, "fresh "+figure)
			}
			if text := strings.Join(got, ", "); text != test.want || worse != test.worse {
				t.Errorf("%q, worse %v; want %q, %v", text, worse, test.want, test.worse)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	pairs := func(after ...float64) (all []history.Pair) {
		for i, a := range after {
			slow := float64(i + 1) // the machine's speed changes, and the ratio does not
			all = append(all, history.Pair{Before: 100 / slow, After: a / slow})
		}
		return all
	}
	for _, test := range []struct {
		name  string
		pairs []history.Pair
		want  history.Verdict
	}{
		{"no rounds", nil, history.Unclear},
		{"the same", pairs(100, 101, 99, 100, 102), history.NoStep},
		{"one slow round", pairs(100, 101, 99, 100, 150), history.NoStep},
		{"faster", pairs(110, 112, 108, 109, 111), history.IsStep},
		{"slower", pairs(90, 92, 88, 91, 99), history.IsStep},
		{"one round says otherwise", pairs(110, 112, 108, 99, 111), history.Unclear},
		{"too few rounds", pairs(110, 112, 108, 109), history.Unclear},
	} {
		if got := history.Judge(test.pairs); got.Verdict != test.want {
			t.Errorf("%s: %+v, want %s", test.name, got, test.want)
		}
	}
}

func TestRead(t *testing.T) {
	const good = `{"commit":"0123456789abcdef+","time":"2026-11-27T01:02:03Z","tools":{"kernel":"6.1"},` +
		`"figures":{"words":3}}`
	lines, err := history.Read(strings.NewReader(good + "\n\n" + good + "\n"))
	if err != nil || len(lines) != 2 {
		t.Fatal(lines, err)
	}
	l := lines[1]
	if l.Short() != "01234567+" || l.Figures["words"] != 3 || l.Tools[history.Kernel] != "6.1" || l.Time.Hour() != 1 {
		t.Errorf("%+v", l)
	}
	for _, test := range []struct{ text, want string }{
		{"{", "line 1"},
		{good + "\n[]", "line 2"},
		{`{"figures":{"words":3}}`, "commit is missing"},
		{`{"commit":"a"}`, "commit a has no figures"},
		{`{"commit":"a","figures":{"words":-3}}`, "words is -3"},
		{`{"commit":"a","figures":{"words":"3"}}`, "line 1"},
	} {
		if _, err := history.Read(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.text, err, test.want)
		}
	}
}

// Figures of one kind stand together, in the order of the kinds.
func TestCompare(t *testing.T) {
	figures := []string{"unknown", "words", "processed/b", "binary/netcraq", "processed/a"}
	slices.SortFunc(figures, history.Compare)
	if want := "processed/a processed/b binary/netcraq words unknown"; strings.Join(figures, " ") != want {
		t.Errorf("%v, want %s", figures, want)
	}
}

// The lines that are committed can be read, are in the order of time, and have finite changes.
func TestCommittedLines(t *testing.T) {
	lines, err := history.ReadFile("../../" + history.Path)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) == 0 {
		t.Fatal(history.Path + " has no lines")
	}
	for i := range lines[1:] {
		steps, _ := history.Steps(lines[:i+1], &lines[i+1])
		for _, s := range steps {
			if math.IsNaN(s.Change()) {
				t.Errorf("%s: %+v", lines[i+1].Commit, s)
			}
		}
	}
}
