package papers

import (
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// overloadPercent is the share of unanswered requests from which on no time is reported: lost
// requests waited longest, so a median or p99 of the others would favour the system that loses
// them.
const overloadPercent = 1.0

// startS is how long it may take until requests are sent at their rate.
const startS = 0.002

// unansweredPercent is the share of the requests that were due and not answered. Where generator and
// nodes share a CPU a chain that can't follow keeps requests from being sent, instead of losing
// them.
func unansweredPercent(found bench.LineLatency) float64 {
	due := max(float64(found.Sent), found.OfferedPerS*(found.LoadS-startS))
	return 100 * max(0, 1-float64(found.Answered)/max(due, 1))
}

// timed is something whose time is measured at an offered load.
type timed struct {
	text       string // one of it
	p50, p99   string // metrics of its time
	unanswered string // metric of the requests that were due and not answered, in percent
	lighter    string // reason why published NetCRAQ does less work
}

// add adds times to a sample, unless too little was answered in its window.
func (t timed) add(v map[string]float64, p50us, p99us, unanswered float64) {
	v[t.unanswered] = unanswered
	if unanswered <= overloadPercent {
		v[t.p50], v[t.p99] = p50us, p99us
	}
}

// overloaded reports whether a series answered too little at a load to have a time there.
func (t timed) overloaded(o *figure.Outcome, series string, x float64) bool {
	unanswered := o.Median(series, x, t.unanswered)
	return unanswered != nil && *unanswered > overloadPercent
}

// at is the median of a metric of the time, nil where the series is overloaded.
func (t timed) at(o *figure.Outcome, series string, x float64, metric string) *float64 {
	if t.overloaded(o, series, x) {
		return nil
	}
	return o.Median(series, x, metric)
}

// ratios are those of the times of two series, where both have one.
func (t timed) ratios(o *figure.Outcome, series, to, metric string) []plot.Point {
	var points []plot.Point
	for _, x := range o.Xs {
		if r := figure.Ratio(t.at(o, series, x, metric), t.at(o, to, x, metric)); r != nil {
			points = append(points, plot.Point{X: x, Y: *r})
		}
	}
	return points
}

// overloadedAt names the series that are overloaded at a load, as an addition to a metric's name;
// nothing if none is.
func (t timed) overloadedAt(o *figure.Outcome, x float64) string {
	var names []string
	for _, s := range o.Spec.Series {
		if t.overloaded(o, s.Name, x) {
			names = append(names, s.Name)
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf(" (overloaded: %s)", strings.Join(names, ", "))
}

// results are times at every load, marked against NetChain's and published NetCRAQ's. Where a
// system is overloaded, the shares of answered requests are compared instead. The paper's time, of
// NetChain, is 0 if there is none.
func (t timed) results(o *figure.Outcome, paperUs float64) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, m := range t.metrics() {
			r := figure.Result{
				Metric: fmt.Sprintf("%s at %s requests/s%s", m.text, number(x), t.overloadedAt(o, x)),
				Unit:   "µs",
				Values: figure.Values{
					figure.NetChain:     t.at(o, netChain, x, m.metric),
					figure.NetCRAQPaper: t.at(o, netcraqPaper, x, m.metric),
					figure.Ours:         t.at(o, ours, x, m.metric),
				},
			}
			if !t.overloaded(o, ours, x) && !t.overloaded(o, netChain, x) {
				r.Mark = figure.AtMost(1, netChain, r.Values[figure.Ours], r.Values[figure.NetChain])
			}
			if paperUs > 0 && m.metric == t.p50 {
				r.Values[figure.Paper] = &paperUs
			}
			all = append(all, r)
		}
		if t.overloadedAt(o, x) != "" {
			all = append(all, t.answered(o, x, netChain))
		}
	}
	return append(all, t.neverBehind(o)...)
}

// metrics are those of the time, with their names.
func (t timed) metrics() []struct{ metric, text string } {
	return []struct{ metric, text string }{{t.p50, "median time of a " + t.text}, {t.p99, "p99 of a " + t.text}}
}

// answered is the share of answered requests, at a load that overloads some system.
func (t timed) answered(o *figure.Outcome, x float64, against string) figure.Result {
	r := figure.Result{
		Metric: fmt.Sprintf("%ss answered of %s/s%s, against %s", t.text, number(x), t.overloadedAt(o, x), against),
		Unit:   "%",
		Values: figure.Values{},
	}
	of := map[string]figure.System{netChain: figure.NetChain, netcraqPaper: figure.NetCRAQPaper, ours: figure.Ours}
	for series, system := range of {
		if unanswered := o.Median(series, x, t.unanswered); unanswered != nil {
			r.Values[system] = figure.Value(100 - *unanswered)
		}
	}
	if t.overloaded(o, ours, x) || t.overloaded(o, against, x) {
		r.Mark = figure.AtLeast(1, against, r.Values[figure.Ours], r.Values[of[against]])
	}
	return r
}

// neverBehind compares with published NetCRAQ at the load where ours leads least: in both times,
// and in answered requests where one of both is overloaded.
func (t timed) neverBehind(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, m := range t.metrics() {
		most := figure.Most(t.ratios(o, ours, netcraqPaper, m.metric))
		if most == nil {
			continue
		}
		mine, theirs := t.at(o, ours, most.X, m.metric), t.at(o, netcraqPaper, most.X, m.metric)
		all = append(all, figure.Result{
			Metric: fmt.Sprintf("%s, where NetCRAQ is least ahead of the published one (%s requests/s)", m.text,
				number(most.X)),
			Unit: "µs",
			Values: figure.Values{
				figure.NetChain:     t.at(o, netChain, most.X, m.metric),
				figure.NetCRAQPaper: theirs,
				figure.Ours:         mine,
			},
			Mark: figure.AtMost(1, netcraqPaper, mine, theirs),
		})
	}
	for _, x := range o.Xs {
		if t.overloaded(o, ours, x) || t.overloaded(o, netcraqPaper, x) {
			all = append(all, t.answered(o, x, netcraqPaper))
		}
	}
	return all
}

// notes report where published NetCRAQ takes less time, which systems are overloaded, and the
// consequence for times.
func (t timed) notes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	if most := figure.Most(t.ratios(o, ours, netcraqPaper, t.p50)); most != nil && most.Y > 1 {
		notes = append(
			notes,
			say(figure.Remark, "lighter", facts{"What": t.text, "Times": most.Y, "Reason": t.lighter}),
		)
	}
	before := len(notes)
	for _, s := range o.Spec.Series {
		for _, x := range o.Xs {
			if t.overloaded(o, s.Name, x) {
				notes = append(notes, say(figure.Remark, "overloaded", facts{
					"Series":  s.Name,
					"Rate":    x,
					"What":    t.text,
					"Percent": *o.Median(s.Name, x, t.unanswered),
				}))
			}
		}
	}
	if len(notes) == before {
		return notes
	}
	return append(notes, say(figure.Remark, "overload-windows", facts{"What": t.text, "Percent": overloadPercent}))
}
