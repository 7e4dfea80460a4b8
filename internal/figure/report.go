package figure

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/plot"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"short": func(v *float64) string {
		if v == nil {
			return "–"
		}
		return plot.Short(*v)
	},
	"time": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
}).Parse(reportText))

// report is what the page shows.
type report struct {
	Lines    []line
	Marked   []line // those that were to reach something
	Sections []section
	Missing  []*Spec // of which nothing was tried
	Met, Of  int
	Unknown  int // marks of which one side was not measured
	Machines []string
	Builds   int // programs that measured
	Quick    bool
	At       time.Time
}

// line is one of the tables at the top.
type line struct {
	Result
	Wanted, Ratio, State string
}

// section is one figure.
type section struct {
	*Outcome
	Name, Title, Command, Mode string
	Source                     Source
	Picture                    template.HTML
	Agree, Differ, Remarks     []string
	CouldNot, Failures         []string
	Table                      []Row
	Settings                   []string
	Circumstances              string
	Lines                      []line
}

// writeReport writes the page of all figures: one file that needs no other.
func writeReport(w io.Writer, dir string, specs []*Spec, outcomes []*Outcome) error {
	r := report{At: time.Now()}
	builds := make(map[string]bool)
	for _, o := range outcomes {
		s, err := newSection(dir, o)
		if err != nil {
			return err
		}
		r.Sections, r.Lines = append(r.Sections, s), append(r.Lines, s.Lines...)
		r.Quick = r.Quick || o.Header.Quick
		builds[o.Header.Binary] = true
		if machine := o.Header.Machine.String(); !slices.Contains(r.Machines, machine) {
			r.Machines = append(r.Machines, machine)
		}
	}
	r.Builds = len(builds)
	for _, s := range specs {
		if !slices.ContainsFunc(outcomes, func(o *Outcome) bool { return o.Spec == s }) {
			r.Missing = append(r.Missing, s)
		}
	}
	for _, l := range r.Lines {
		if l.State != "" {
			r.Marked = append(r.Marked, l)
		}
		switch l.State {
		case "met":
			r.Met++
			r.Of++
		case "missed":
			r.Of++
		case "not measured":
			r.Unknown++
		}
	}
	return reportTemplate.Execute(w, r)
}

func newSection(dir string, o *Outcome) (section, error) {
	s := section{Outcome: o, Name: o.Spec.Name, Title: o.Spec.Title, Source: o.Spec.Source, Mode: o.mode(), Command: Command(o.Spec, o.Header.Quick)}
	if !o.Empty() {
		picture, err := os.ReadFile(filepath.Join(dir, o.Spec.Name+".svg"))
		if err != nil {
			return s, err
		}
		s.Picture = inline(string(picture), o.Spec.Title)
	}
	for _, note := range o.notes() {
		switch note.Verdict {
		case Agrees:
			s.Agree = append(s.Agree, note.Text)
		case Differs:
			s.Differ = append(s.Differ, note.Text)
		default:
			s.Remarks = append(s.Remarks, note.Text)
		}
	}
	for _, u := range o.Unable {
		s.CouldNot = appendNew(s.CouldNot, join(u.Series, u.Why))
	}
	for _, f := range o.Failed {
		s.Failures = appendNew(s.Failures, join(f.Series, f.Why))
	}
	for _, r := range o.results() {
		s.Lines = append(s.Lines, newLine(r))
	}
	s.Table = o.table()
	s.Circumstances = o.circumstances()
	if o.End != nil {
		s.Settings = o.End.Settings
	}
	return s, nil
}

// Command is what makes a figure again.
func Command(s *Spec, quick bool) string {
	command := "bin/netcraq bench figure " + s.Name
	if quick {
		command += " --quick"
	}
	if s.Needs.Root {
		command = "sudo " + command
	}
	return command
}

// inline makes a picture part of a page: without the declarations of a file, as wide as there is room, with a name for those
// who cannot see it.
func inline(svg, name string) template.HTML {
	if at := strings.Index(svg, "<svg"); at > 0 {
		svg = svg[at:]
	}
	label := fmt.Sprintf(`<svg role="img" aria-label="%s"`, template.HTMLEscapeString(name))
	return template.HTML(strings.Replace(svg, "<svg", label, 1)) //nolint:gosec // our own drawing
}

func join(series, why string) string {
	if series == "" {
		return why
	}
	return series + ": " + why
}

func appendNew(all []string, text string) []string {
	if slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

func newLine(r Result) line {
	l := line{Result: r}
	if r.Mark == nil {
		return l
	}
	l.Wanted = r.Mark.Wanted()
	switch {
	case r.Mark.Ratio == nil:
		l.State = "not measured"
	case r.Mark.Met():
		l.State = "met"
	default:
		l.State = "missed"
	}
	if r.Mark.Ratio != nil {
		l.Ratio = plot.Short(*r.Mark.Ratio)
	}
	return l
}

// table lists all cells, in the order of the legend.
func (o *Outcome) table() []Row {
	var rows []Row
	for _, s := range o.Spec.Series {
		for _, x := range o.Xs {
			for _, metric := range o.metrics(Cell{s.Name, x}) {
				if spread, ok := o.Spread(s.Name, x, metric); ok {
					rows = append(rows, Row{s.Name, x, o.Spec.X.Place(x), metric, o.Spec.unit(metric), spread, o.Spec.draws(metric)})
				}
			}
		}
	}
	return rows
}

// metrics lists what was measured at a cell, that of the panels first.
func (o *Outcome) metrics(cell Cell) []string {
	var names []string
	for _, m := range o.samples[cell] {
		for metric := range m.Values {
			names = appendNew(names, metric)
		}
	}
	place := func(metric string) int {
		at := slices.IndexFunc(o.Spec.Panels, func(p Panel) bool { return p.Metric == metric })
		if at < 0 {
			return len(o.Spec.Panels)
		}
		return at
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	return names
}

// circumstances say when and where it was measured, and how quiet it was there.
func (o *Outcome) circumstances() string {
	h := o.Header
	text := fmt.Sprintf("%s. Load before: %.2f", h.Machine, h.Machine.Load[0])
	if o.End == nil {
		return text + "; interrupted."
	}
	text += fmt.Sprintf(", after: %.2f; %.1f %% of the CPUs' time went to other guests. %d rounds of %v each, in %.0f s", o.End.Load[0], o.End.StealPct, o.Rounds(), o.Spec.plan(h.Quick).Turn, o.End.Seconds)
	if o.End.TimeUp {
		text += fmt.Sprintf("; the time was up before all %d rounds", o.Spec.plan(h.Quick).Rounds)
	}
	return text + "."
}
