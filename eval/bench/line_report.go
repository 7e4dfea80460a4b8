package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/eval/statistics"
)

// LinesOptions select the lines to compare and their work.
type LinesOptions struct {
	LineOptions // Protocol is not used
	Work
	Windows
	Protocols []Protocol
	Rate      float64 // offered load for latencies; 0: as much as the line answers
}

// LinesResult compares lines of several protocols at the same work.
type LinesResult struct {
	Conditions
	Lines      []LineRow `json:"lines"`
	Nodes      int       `json:"nodes"`
	Target     int       `json:"target"`
	WriteShare float64   `json:"write_share"`
	Dirty      bool      `json:"dirty"`
	Keys       int       `json:"keys"`
	ValueBytes int       `json:"value_bytes"`
	Rounds     int       `json:"rounds"`
	Host       Host      `json:"machine"`
}

// LineRow is the result of one protocol: medians of rates and times over the rounds, and sums of
// counts.
type LineRow struct {
	Protocol Protocol `json:"protocol"`
	Slots    int      `json:"slots"` // requests per frame
	LineLatency
	Slowest float64 `json:"slowest_per_s"` // answers per second in the slowest round
	Fastest float64 `json:"fastest_per_s"`
}

// Lines opens a line for each protocol and lets them take turns.
func Lines(ctx context.Context, o LinesOptions) (*LinesResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &LinesResult{
		Nodes: o.Nodes, Target: o.Target, WriteShare: o.WriteShare, Dirty: o.Dirty, Keys: o.Keys, ValueBytes: o.ValueBytes,
		Rounds: o.Rounds, Host: ThisHost(), Conditions: o.Conditions,
	}
	lines := make([]*Line, len(o.Protocols))
	for i, protocol := range o.Protocols {
		one := o.LineOptions
		one.Protocol = protocol
		var err error
		if lines[i], err = OpenLine(ctx, one); err != nil {
			return nil, fmt.Errorf("%s: %w", protocol, err)
		}
		defer lines[i].Close()
	}
	figures := make([][]LineLatency, len(lines))
	for round := range o.Rounds {
		for i := range lines {
			if round%2 == 1 {
				i = len(lines) - 1 - i
			}
			f, err := lines[i].measureWindow(ctx, &o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.Protocols[i], err)
			}
			o.Progress.say("round %d of %d: %s %.2f M/s", round+1, o.Rounds, o.Protocols[i], (f.ReadsPerS+f.WritesPerS)/1e6)
			figures[i] = append(figures[i], f)
		}
	}
	for i, protocol := range o.Protocols {
		row := lineRow(protocol, figures[i])
		row.Slots = 1
		if protocol == NetCRAQ {
			row.Slots = max(o.Slots, 1)
		}
		r.Lines = append(r.Lines, row)
	}
	return r, nil
}

func (o *LinesOptions) check() error {
	if len(o.Protocols) == 0 {
		return wrongOption("no protocol given")
	}
	for _, protocol := range o.Protocols {
		one := o.LineOptions
		one.Protocol = protocol
		if err := one.validate(); err != nil {
			return err
		}
	}
	if o.Rate < 0 {
		return wrongOption("an offered load of at least 0, not %v", o.Rate)
	}
	return validate(&o.Windows, workOf{&o.Work, &o.LineOptions})
}

// workOf is work together with the line that runs it.
type workOf struct {
	work *Work
	line *LineOptions
}

func (w workOf) validate() error { return w.work.validate(w.line) }

func (l *Line) measureWindow(ctx context.Context, o *LinesOptions) (LineLatency, error) {
	if o.Rate > 0 {
		return l.Latency(ctx, o.Work, o.Rate, o.length())
	}
	f, err := l.Throughput(ctx, o.Work, o.length())
	return LineLatency{LineFigure: f}, err
}

// lineRow aggregates the rounds of a protocol.
func lineRow(protocol Protocol, rounds []LineLatency) LineRow {
	row := LineRow{Protocol: protocol}
	pick := func(of func(LineLatency) float64) float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = of(r)
		}
		return statistics.Median(values)
	}
	for i, r := range rounds {
		rate := r.ReadsPerS + r.WritesPerS
		if i == 0 || rate < row.Slowest {
			row.Slowest = rate
		}
		row.Fastest = max(row.Fastest, rate)
		row.Sent += r.Sent
		row.Answered += r.Answered
		row.Lost += r.Lost
		row.Wrong += r.Wrong
		row.DirtyCommits += r.DirtyCommits
		row.Overflows += r.Overflows
		row.LoadS += r.LoadS
		row.OfferedPerS, row.Batch, row.Window = r.OfferedPerS, r.Batch, r.Window
		row.Read.Count += r.Read.Count
		row.Write.Count += r.Write.Count
	}
	row.ReadsPerS = pick(func(r LineLatency) float64 { return r.ReadsPerS })
	row.WritesPerS = pick(func(r LineLatency) float64 { return r.WritesPerS })
	for kind, of := range []func(*LineLatency) *Quantiles{
		func(r *LineLatency) *Quantiles { return &r.Read }, func(r *LineLatency) *Quantiles { return &r.Write },
	} {
		q := &row.Read
		if kind == 1 {
			q = &row.Write
		}
		q.Meanus = pick(func(r LineLatency) float64 { return of(&r).Meanus })
		q.P50us = pick(func(r LineLatency) float64 { return of(&r).P50us })
		q.P99us = pick(func(r LineLatency) float64 { return of(&r).P99us })
		q.P999us = pick(func(r LineLatency) float64 { return of(&r).P999us })
	}
	return row
}

// Table returns one row per protocol.
func (r *LinesResult) Table() ([]string, [][]string) {
	header := []string{"protocol", "a frame", "reads/s", "writes/s", "slowest", "fastest", "lost %",
		"dirty commits", "overflows"}
	timed := r.Lines[0].OfferedPerS > 0
	if timed {
		header = append(header, "read p50 µs", "p99", "p99.9", "write p50 µs", "p99", "p99.9")
	}
	var rows [][]string
	for _, x := range r.Lines {
		lost := 0.0
		if x.Sent > 0 {
			lost = 100 * float64(x.Lost) / float64(x.Sent)
		}
		row := []string{
			string(x.Protocol), fmt.Sprint(x.Slots), count(x.ReadsPerS), count(x.WritesPerS), count(x.Slowest), count(x.Fastest),
			fmt.Sprintf("%.2f", lost), fmt.Sprint(x.DirtyCommits), fmt.Sprint(x.Overflows),
		}
		if timed {
			for _, v := range []float64{x.Read.P50us, x.Read.P99us, x.Read.P999us, x.Write.P50us,
				x.Write.P99us, x.Write.P999us} {
				row = append(row, fmt.Sprintf("%.1f", v))
			}
		}
		rows = append(rows, row)
	}
	return header, rows
}

// Summary states the lines, the work and the number of rounds.
func (r *LinesResult) Summary() string {
	dirty, bundles := "", ""
	if r.Dirty {
		dirty = ", dirty at all nodes but the tail"
	}
	if slices.ContainsFunc(r.Lines, func(x LineRow) bool { return x.Slots > 1 }) {
		bundles = "Rates count requests; the column \"a frame\" is the number of requests per frame, " +
			"1 for the papers' protocols.\n"
	}
	return fmt.Sprintf(
		"lines of %d nodes, the client at node %d, %.0f %% writes, %d keys of %d bytes%s;\n%s; medians of %d rounds.\n%s%v",
		r.Nodes, r.Target, 100*r.WriteShare, r.Keys, r.ValueBytes, dirty, r.conditions(), r.Rounds, bundles, r.Host)
}
