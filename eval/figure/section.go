package figure

import (
	"cmp"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// section is the report's section of one figure.
type section struct {
	*Outcome
	Name, Title, Command, Mode string
	Source                     Source
	Picture                    template.HTML
	Legend                     string // how to read it
	Agree, Differ, Remarks     []string
	CouldNot, Failures         []string // with the series that a reason concerns
	Lines, Marked              []line   // all results; those that were to reach something, and were measured
	Score                      score
	Table                      []Row
	Settings                   []string
	Texts                      []sectionText
	Circumstances              string
}

// sectionText is a text with the name of its file.
type sectionText struct {
	Text
	File string
}

func newSection(dir string, o *Outcome) (section, error) {
	s := section{
		Outcome: o,
		Name:    o.Spec.Name,
		Title:   o.Spec.Title,
		Source:  o.Spec.Source,
		Mode:    mode(o.Header.Quick),
		Command: Command(o.Spec, o.Header.Quick),
		Legend:  o.Spec.legend(),
	}
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
	s.CouldNot, s.Failures = byReason(o.Unable), byReason(o.Failed)
	for _, r := range o.results() {
		l := newLine(r)
		s.Lines = append(s.Lines, l)
		if l.Ratio != nil {
			s.Marked = append(s.Marked, l)
		}
	}
	s.Score = scoreOf(s.Lines)
	s.Table = o.table()
	for _, text := range o.Texts() {
		s.Texts = append(s.Texts, sectionText{text, textFile(o.Spec, text)})
	}
	s.Circumstances = o.circumstances()
	if o.End != nil {
		s.Settings = o.End.Settings
	}
	return s, nil
}

// Command is the command that makes a figure again.
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

// inline makes a picture part of a page: without the declarations of a file, as wide as the page,
// with a text for screen readers.
func inline(svg, name string) template.HTML {
	if at := strings.Index(svg, "<svg"); at > 0 {
		svg = svg[at:]
	}
	label := fmt.Sprintf(`<svg role="img" aria-label="%s"`, template.HTMLEscapeString(name))
	return template.HTML(strings.Replace(svg, "<svg", label, 1)) //nolint:gosec // our own drawing
}

// legend says how to read a figure's picture.
func (s *Spec) legend() string {
	var parts []string
	if slices.ContainsFunc(s.Panels, func(p Panel) bool { return !p.Curve }) {
		parts = append(parts,
			"Markers and bars are medians. Error bars span the middle half of the rounds, or all rounds "+
				"if there are fewer than four.")
	}
	if slices.ContainsFunc(s.Panels, func(p Panel) bool { return p.Curve }) {
		parts = append(parts, "Curves over time are those of the first round.")
	}
	return strings.Join(append(parts, "Where lines coincide, the last in the legend covers the others."), " ")
}

// byReason lists why series are missing, every reason once.
func byReason(failures []Failure) []string {
	var reasons []string
	series := make(map[string][]string)
	for _, f := range failures {
		reasons = appendNew(reasons, f.Why)
		if f.Series != "" {
			series[f.Why] = appendNew(series[f.Why], f.Series)
		}
	}
	for i, why := range reasons {
		if concerned := series[why]; len(concerned) > 0 {
			reasons[i] = strings.Join(concerned, "; ") + ": " + why
		}
	}
	return reasons
}

func appendNew(all []string, text string) []string {
	if slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

// table lists all cells, in the order of the legend.
func (o *Outcome) table() []Row {
	var rows []Row
	for _, s := range o.Spec.Series {
		for _, x := range o.Xs {
			for _, metric := range o.metrics(Cell{s.Name, x}) {
				if spread, ok := o.shown(s.Name, x, metric); ok {
					rows = append(rows,
						Row{s.Name, x, o.Spec.X.Place(x), metric, o.Spec.unit(metric), spread, o.Spec.draws(metric)})
				}
			}
		}
	}
	return rows
}

// metrics lists the metrics of a cell, those of the panels first.
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
	text := fmt.Sprintf("%s. Load before: %.2f", h.Host, h.Host.Load[0])
	if o.End == nil {
		return text + "; interrupted."
	}
	text += fmt.Sprintf(
		", after: %.2f; %.1f %% of the CPUs' time went to other guests. Rounds: %d, each measurement %v, all in %.0f s",
		o.End.Load[0], o.End.StealPct, o.Rounds(), o.Spec.plan(h.Quick).Window, o.End.Seconds)
	if o.End.TimeUp {
		text += fmt.Sprintf("; the time was up before all %d rounds", o.Spec.plan(h.Quick).Rounds)
	}
	return text + "."
}
