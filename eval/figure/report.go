package figure

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/eval/usl"
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
	"time":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	"code":     code,
	"interval": interval,
	"columns":  func() []column { return columns },
	// ratio, wanted and mark follow the systems and the unit
	"width": func() int { return 1 + len(columns) + 4 },
}).Parse(reportText))

// report is the data of the page's template.
type report struct {
	Sections []section
	Missing  []*Spec // of which nothing was tried
	Score    score
	Results  int // lines of all figures
	Machines []string
	Builds   int // programs that measured
	Quick    bool
	At       time.Time
	Base     string // before the names of files
}

// line is one of the tables of results.
type line struct {
	Result
	Wanted, State string
	Ratio         *float64
}

// score counts marks.
type score struct {
	Met, Of int
	Unknown int // one side was not measured
}

// writeReport writes the page of all figures in a folder: one file that needs no other. The base is the
// way from the page to the folder.
func writeReport(w io.Writer, dir, base string, specs []*Spec, outcomes []*Outcome) error {
	r := report{At: time.Now(), Base: base}
	builds := make(map[string]bool)
	for _, o := range outcomes {
		s, err := newSection(dir, o)
		if err != nil {
			return err
		}
		r.Sections, r.Results = append(r.Sections, s), r.Results+len(s.Lines)
		r.Score.add(s.Score)
		r.Quick = r.Quick || o.Header.Quick
		builds[o.Header.Binary] = true
		if machine := o.Header.Host.String(); !slices.Contains(r.Machines, machine) {
			r.Machines = append(r.Machines, machine)
		}
	}
	r.Builds = len(builds)
	for _, s := range specs {
		if !slices.ContainsFunc(outcomes, func(o *Outcome) bool { return o.Spec == s }) {
			r.Missing = append(r.Missing, s)
		}
	}
	return reportTemplate.Execute(w, r)
}

// interval is the bounds of a value, or nothing.
func interval(i *usl.Interval) string {
	if i == nil {
		return ""
	}
	return " (" + i.Text(plot.Short) + ")"
}

func newLine(r Result) line {
	l := line{Result: r}
	if r.Mark == nil {
		return l
	}
	l.Wanted, l.Ratio = r.Mark.Wanted(), r.Mark.Ratio
	switch {
	case r.Mark.Ratio == nil:
		l.State = "not measured"
	case r.Mark.Met():
		l.State = "met"
	default:
		l.State = "missed"
	}
	return l
}

func scoreOf(lines []line) score {
	var s score
	for _, l := range lines {
		switch l.State {
		case "met":
			s.Met++
			s.Of++
		case "missed":
			s.Of++
		case "not measured":
			s.Unknown++
		}
	}
	return s
}

func (s *score) add(other score) {
	s.Met += other.Met
	s.Of += other.Of
	s.Unknown += other.Unknown
}

func (s score) String() string {
	var parts []string
	if s.Of > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d met", s.Met, s.Of))
	}
	if s.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d not measured", s.Unknown))
	}
	if parts == nil {
		return "–"
	}
	return strings.Join(parts, ", ")
}

var quoted = regexp.MustCompile("`([^`]+)`")

// code makes HTML of a text; backquotes become code elements.
func code(text string) template.HTML {
	return template.HTML(
		quoted.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>")) //nolint:gosec // escaped
}
