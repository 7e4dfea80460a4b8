package figure

import (
	"encoding/json"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/usl"
)

// pageOf publishes a figure of which one part could not be measured, and one mark neither.
func pageOf(t *testing.T) string {
	t.Helper()
	dir, spec := t.TempDir(), hashSpec(&hashing{fail: func(_ int, cell Cell) error {
		if cell.Series == "second" {
			return &Unable{"not installed: run `install <it>`"}
		}
		return nil
	}})
	whole := spec.Results
	spec.Results = func(o *Outcome) []Result {
		ours := o.Median("first", 256, "hashes_per_s")
		return append(whole(o),
			Result{
				Metric: "against itself",
				Values: Values{Ours: ours},
				Mark:   AtLeast(1, "itself", ours, ours),
			},
			Result{Metric: "alone", Values: Values{Ours: ours}})
	}
	if _, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(dir, []*Spec{spec}); err != nil {
		t.Fatal(err)
	}
	return read(t, filepath.Join(dir, ReportName))
}

func TestReportLeadsToItsFigures(t *testing.T) {
	page := pageOf(t)
	links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 3 {
		t.Errorf("%d links within the page", len(links))
	}
	for _, link := range links {
		if strings.Count(page, ` id="`+link[1]+`"`) != 1 {
			t.Errorf("no one place is called %q", link[1])
		}
	}
}

func TestReportSaysWhatIsMissing(t *testing.T) {
	page := pageOf(t)
	for _, want := range []string{
		"<li>second: not installed: run <code>install &lt;it&gt;</code></li>", "1 of 1 met, 1 not measured.",
		`<td class="n">–</td><td>at least 0.001 × second</td><td class="unknown">not measured</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report has no %q", want)
		}
	}
}

// Every line of a table has a cell for each of its columns.
func TestTablesAreWhole(t *testing.T) {
	table, row := regexp.MustCompile(`(?s)<table>.*?</table>`), regexp.MustCompile(`(?s)<tr>.*?</tr>`)
	tables := table.FindAllString(pageOf(t), -1)
	if len(tables) != 5 { // figures, marks, all results, the figure's results and numbers
		t.Errorf("%d tables", len(tables))
	}
	for _, text := range tables {
		rows := row.FindAllString(text, -1)
		columns := strings.Count(rows[0], "<th") - strings.Count(rows[0], "<thead")
		for _, r := range rows[1:] {
			cells := strings.Count(r, "<th") + strings.Count(r, "<td")
			if strings.Contains(r, `colspan="10"`) {
				cells += 9
			}
			if cells != columns {
				t.Errorf("%d cells under %d columns: %s", cells, columns, r)
			}
		}
	}
}

// Texts have files of their own and are, collapsed, in the report; those of an earlier run are
// removed, other files stay.
func TestTextsAreShown(t *testing.T) {
	dir, spec := t.TempDir(), hashSpec(&hashing{texts: []Text{{Name: "old", Title: "Old", Text: "old"}}})
	if _, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(dir, []*Spec{spec}); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(dir, "hashing-note.txt")
	if err := os.WriteFile(note, []byte("a reader's"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec = hashSpec(&hashing{texts: []Text{{Name: "new", Title: "A < B", Text: "n1 <- n2\n"}}})
	spec.Quick.Xs = []float64{16}
	if _, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	outcomes, err := Publish(dir, []*Spec{spec})
	if err != nil {
		t.Fatal(err)
	}
	if files := contents(t, filepath.Join(dir, "texts")); !maps.Equal(files,
		map[string]string{"hashing/new.txt": "n1 <- n2\n"}) {
		t.Errorf("files with texts: %v", files)
	}
	if files := outcomes[0].Made(dir).Files; !slices.Contains(files, filepath.Join(dir, "texts/hashing/new.txt")) {
		t.Errorf("files of the figure: %v", files)
	}
	if text := read(t, note); text != "a reader's" {
		t.Errorf("a file that is not the figure's says %q", text)
	}
	page := read(t, filepath.Join(dir, ReportName))
	want := `<details class="text"><summary>A &lt; B <a href="texts/hashing/new.txt">file</a></summary><pre>n1 &lt;- n2` +
		"\n</pre></details>"
	if strings.Count(page, want) != 1 {
		t.Errorf("the report has %q %d times", want, strings.Count(page, want))
	}
}

// bounds is the interval of one system.
func bounds(of System, low float64, high *float64) map[System]usl.Interval {
	return map[System]usl.Interval{of: {Low: low, High: high}}
}

// Fits have their bounds in the report, the summary and the numbers; results without a unit have
// null there.
func TestFittedValuesHaveBounds(t *testing.T) {
	dir, spec := t.TempDir(), hashSpec(new(hashing))
	spec.Results = func(*Outcome) []Result {
		return []Result{
			{Metric: "fitted", Values: Values{Peer: Value(2)}, Intervals: bounds(Peer, 1.5, Value(2.5))},
			{Metric: "open", Unit: "members", Values: Values{Peer: Value(3)}, Intervals: bounds(Peer, 2, nil)},
			{Metric: "measured", Values: Values{Peer: Value(4)}},
			{Metric: "ours", Values: Values{Ours: Value(5)}, Intervals: bounds(Ours, 4, Value(6))},
		}
	}
	if _, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(dir, []*Spec{spec}); err != nil {
		t.Fatal(err)
	}
	page, numbers := read(t, filepath.Join(dir, ReportName)), read(t, filepath.Join(dir, "hashing.csv"))
	for _, want := range []string{`<td class="n">2 (1.5 to 2.5)</td>`, `<td class="n">3 (2 or more)</td>`,
		`<td class="n">4</td>`, `<td class="n ours">5 (4 to 6)</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if !strings.Contains(numbers, "hashing,quick,,,,,,fitted,,,2,") || !strings.Contains(numbers, "Z,1.5,2.5\n") ||
		!strings.Contains(numbers, "Z,2,\n") ||
		strings.Contains(numbers, "measured") {
		t.Errorf("numbers:\n%s", numbers)
	}
	var summary []map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, SummaryName))), &summary); err != nil {
		t.Fatal(err)
	}
	if unit, there := summary[0]["unit"]; unit != nil || !there || summary[0]["low"] != 1.5 ||
		summary[0]["high"] != 2.5 ||
		summary[1]["unit"] != "members" ||
		len(summary[1]) != 9 ||
		len(summary[2]) != 8 ||
		summary[3]["ours_low"] != 4.0 || summary[3]["ours_high"] != 6.0 || len(summary[3]) != 10 {
		t.Errorf("summary: %v", summary)
	}
}

func TestReasonsAreGivenOnce(t *testing.T) {
	away := "redis is not installed"
	got := byReason(
		[]Failure{
			{Cell: Cell{Series: "Redis"}, Why: away},
			{Cell: Cell{Series: "Redis", X: 1}, Why: away},
			{Why: "no root"},
			{Cell: Cell{Series: "Redis, alone"}, Why: away},
		},
	)
	if want := []string{"Redis; Redis, alone: " + away, "no root"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLegendIsOfWhatIsDrawn(t *testing.T) {
	medians, curves := "are medians", "of the first round"
	for _, test := range []struct {
		panels        []Panel
		median, curve bool
	}{{[]Panel{{}}, true, false}, {[]Panel{{Curve: true}}, false, true},
		{[]Panel{{Curve: true}, {Bars: true}}, true, true}} {
		text := (&Spec{Panels: test.panels}).legend()
		if strings.Contains(text, medians) != test.median || strings.Contains(text, curves) != test.curve {
			t.Errorf("%+v: %q", test.panels, text)
		}
	}
}

func TestScoreInWords(t *testing.T) {
	for want, s := range map[string]score{
		"–": {}, "1 of 2 met": {Met: 1, Of: 2}, "3 not measured": {Unknown: 3},
		"0 of 2 met, 1 not measured": {Of: 2, Unknown: 1},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestCodeInText(t *testing.T) {
	for text, want := range map[string]template.HTML{
		"a < b": "a &lt; b", "run `a & b`, `c`": "run <code>a &amp; b</code>, <code>c</code>", "5` long": "5` long",
	} {
		if got := code(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
