package figure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/eval/usl"
)

// System is a column of the results: a system that is measured, or a paper.
type System string

// The systems that every result of the summary has a field for.
const (
	Paper        System = "paper"
	NetChain            = System(plot.NetChain)
	NetCRAQPaper        = System(plot.NetCRAQPaper)
	Ours                = System(plot.Ours)
	Peer                = System(plot.Peer)
)

// column is a system in the tables of the report.
type column struct {
	System System
	Title  string
}

// columns are the systems in the order of the summary's fields and of the report's columns. Another
// system is another line here.
var columns = []column{
	{Paper, "paper"},
	{NetChain, "NetChain"},
	{NetCRAQPaper, "NetCRAQ as published"},
	{Ours, "ours"},
	{Peer, "peer"},
}

// Values are those of a metric by system. A system without one is missing or has nil.
type Values map[System]*float64

// Result is a metric of the summary, with a value for each system that has it.
type Result struct {
	Figure    string
	Metric    string
	Unit      string // "": a number without one
	Values    Values
	Intervals map[System]usl.Interval // of values that were fitted, with the confidence that the notes name
	Mark      *Mark
}

// ResultRow is the value of one system.
type ResultRow struct {
	Metric   string
	System   System
	Value    *float64      // nil: there is none
	Interval *usl.Interval // nil: the value was not fitted
}

// Rows lists a value for each system, in the order of the summary.
func (r *Result) Rows() []ResultRow {
	rows := make([]ResultRow, len(columns))
	for i, c := range columns {
		rows[i] = ResultRow{Metric: r.Metric, System: c.System, Value: r.Values[c.System]}
		if bounds, ok := r.Intervals[c.System]; ok {
			rows[i].Interval = &bounds
		}
	}
	return rows
}

// bounds are the names of the fields of the interval in the summary: those of a peer have no prefix.
func (r *ResultRow) bounds() (low, high string) {
	if r.System == Peer {
		return "low", "high"
	}
	return string(r.System) + "_low", string(r.System) + "_high"
}

// MarshalJSON writes one object with a field for each system, null where it has no value.
func (r Result) MarshalJSON() ([]byte, error) {
	var unit *string
	if r.Unit != "" {
		unit = &r.Unit
	}
	fields := object{{"figure", r.Figure}, {"metric", r.Metric}}
	var intervals object
	for _, row := range r.Rows() {
		fields = append(fields, field{string(row.System), row.Value})
		if row.Interval == nil {
			continue
		}
		low, high := row.bounds()
		intervals = append(intervals, field{low, row.Interval.Low})
		if row.Interval.High != nil {
			intervals = append(intervals, field{high, row.Interval.High})
		}
	}
	return append(append(fields, intervals...), field{"unit", unit}).MarshalJSON()
}

// object is a JSON object whose fields are known when it is written.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON writes the fields in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for i, f := range o {
		text.WriteByte("{,"[min(i, 1)])
		if err := encoder.Encode(f.name); err != nil {
			return nil, err
		}
		text.WriteByte(':')
		if err := encoder.Encode(f.value); err != nil {
			return nil, err
		}
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// Mark is the target of a result: a ratio of ours to another.
type Mark struct {
	Against string   // name of the other
	Ratio   *float64 // as measured; nil: one of both is missing
	AtLeast float64  // 0: there is no such bound
	AtMost  float64  // 0: there is no such bound
}

// Met reports whether the mark was reached; false, too, if nothing was measured.
func (m *Mark) Met() bool {
	switch {
	case m == nil || m.Ratio == nil:
		return false
	case m.AtMost > 0:
		return *m.Ratio <= m.AtMost
	}
	return *m.Ratio >= m.AtLeast
}

// Wanted describes the target of the mark.
func (m *Mark) Wanted() string {
	if m.AtMost > 0 {
		return fmt.Sprintf("at most %.3g × %s", m.AtMost, m.Against)
	}
	return fmt.Sprintf("at least %.3g × %s", m.AtLeast, m.Against)
}

// AtLeast is the mark that a is at least n times b.
func AtLeast(n float64, against string, a, b *float64) *Mark {
	return &Mark{Against: against, Ratio: Ratio(a, b), AtLeast: n}
}

// AtMost is the mark that a is at most n times b.
func AtMost(n float64, against string, a, b *float64) *Mark {
	return &Mark{Against: against, Ratio: Ratio(a, b), AtMost: n}
}

// results are the lines of a figure, or of its measured part.
func (o *Outcome) results() []Result {
	if o.Spec.Results == nil || o.Empty() {
		return nil
	}
	all := o.Spec.Results(o)
	for i := range all {
		all[i].Figure = o.Spec.Name
	}
	return all
}

// notes are the notes about a figure.
func (o *Outcome) notes() []Note {
	if o.Spec.Notes == nil || o.Empty() {
		return nil
	}
	return o.Spec.Notes(o)
}

// summary lists the results of all figures.
func summary(outcomes []*Outcome) []Result {
	all := []Result{}
	for _, o := range outcomes {
		all = append(all, o.results()...)
	}
	return all
}

func writeSummary(w io.Writer, outcomes []*Outcome) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(summary(outcomes))
}
