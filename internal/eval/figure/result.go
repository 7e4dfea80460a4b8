package figure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/netcraq/netcraq/internal/eval/plot"
)

// Result is a line of the summary. Fields that do not apply are nil.
type Result struct {
	Figure       string   `json:"figure"`
	Metric       string   `json:"metric"`
	Paper        *float64 `json:"paper"`
	NetChain     *float64 `json:"netchain"`
	NetCRAQPaper *float64 `json:"netcraq_published"`
	Ours         *float64 `json:"ours"`
	Peer         *float64 `json:"peer"`
	Unit         string   `json:"unit"` // "", in JSON null: a number without one
	// Bounds of Peer where it was fitted, with the confidence that the figure's notes name. Low
	// alone: there is no upper bound.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	Mark *Mark    `json:"-"`
}

// MarshalJSON writes null for empty fields.
func (r Result) MarshalJSON() ([]byte, error) {
	type fields Result
	with := struct {
		fields
		Unit *string `json:"unit"`
	}{fields: fields(r)}
	if r.Unit != "" {
		with.Unit = &r.Unit
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(with)
	return text.Bytes(), err
}

// Interval says the bounds of Peer, or nothing.
func (r *Result) Interval() string {
	switch {
	case r.Low == nil:
		return ""
	case r.High == nil:
		return fmt.Sprintf(" (%s or more)", plot.Short(*r.Low))
	}
	return fmt.Sprintf(" (%s to %s)", plot.Short(*r.Low), plot.Short(*r.High))
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
