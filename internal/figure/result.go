package figure

import (
	"encoding/json"
	"fmt"
	"io"
)

// Result is a line of the summary. What does not apply is nil.
type Result struct {
	Figure    string   `json:"figure"`
	Metric    string   `json:"metric"`
	Paper     *float64 `json:"paper"`
	NetChain  *float64 `json:"netchain"`
	Published *float64 `json:"netcraq_published"`
	Ours      *float64 `json:"ours"`
	Peer      *float64 `json:"peer"`
	Unit      string   `json:"unit"`
	Mark      *Mark    `json:"-"`
}

// Mark is what a result was to reach: a ratio of ours to another.
type Mark struct {
	Against string   // whom
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

// Wanted says what the mark asks for.
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

// results are the lines of a figure, or of what was measured of it.
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

// notes are what there is to say about a figure.
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
