package etcdstudy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/eval/usl"
)

// Published are the laws that the study found, with one core for each member.
var Published = map[Consistency]usl.Law{
	Serializable: {Lambda: 9215.75, Sigma: 0.54, Kappa: 0.047},
	Linearizable: {Lambda: 8546.83, Sigma: 0.56, Kappa: 0.044},
}

// MembersOptions say which clusters are compared.
type MembersOptions struct {
	Harness  HarnessOptions // Members is not used
	Load     Load
	Sizes    []int    // of clusters; none: [QuickMembers]
	Rounds   int      // in which all sizes take turns; 0: 1
	Progress Progress // may be nil
}

// Progress receives progress messages.
type Progress func(text string)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}

// MembersResult is throughput against the number of members.
type MembersResult struct {
	Settings []string `json:"settings"`
	Seed     uint64   `json:"seed"`
	Cells    []Cell   `json:"cells"`
	Laws     []Law    `json:"laws"`
}

// Law is the fit to the cells of one kind of reads, beside the study's.
type Law struct {
	Consistency Consistency `json:"consistency"`
	Fitted      *usl.Fitted `json:"fitted"`        // nil: fewer than three sizes
	Peak        *float64    `json:"peak_nodes"`    // nil: more members are always faster
	Why         string      `json:"why,omitempty"` // nothing was fitted
	Published   usl.Law     `json:"published"`     // the study's, absolute figures of another machine
	TheirPeak   float64     `json:"published_peak_nodes"`
}

// Members measures clusters of several sizes, both kinds of reads on each. In every other round
// their order is reversed.
func Members(ctx context.Context, o MembersOptions) (*MembersResult, error) {
	if err := o.Load.withDefaults().validate(); err != nil {
		return nil, err
	}
	if len(o.Sizes) == 0 {
		o.Sizes = QuickMembers
	}
	result := &MembersResult{Seed: o.Load.Seed}
	order := []Consistency{Linearizable, Serializable}
	sizes := slices.Clone(o.Sizes)
	for round := range max(1, o.Rounds) {
		for _, size := range sizes {
			o.Progress.say("round %d, %d members", round+1, size)
			cells, settings, err := o.measure(ctx, size, order)
			if err != nil {
				return nil, fmt.Errorf("%d members: %w", size, err)
			}
			result.Cells, result.Settings = append(result.Cells, cells...), settings
		}
		slices.Reverse(sizes)
		slices.Reverse(order)
	}
	slices.Sort(order)
	for _, consistency := range order {
		result.Laws = append(result.Laws, FitMembers(result.Cells, consistency, o.Load.Seed))
	}
	return result, nil
}

// measure opens a cluster of one size for its cells.
func (o *MembersOptions) measure(
	ctx context.Context,
	size int,
	order []Consistency,
) (cells []Cell, settings []string, err error) {
	harness := o.Harness
	harness.Members = size
	r, err := OpenHarness(ctx, harness)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, consistency := range order {
		cell, err := r.TxnMixed(ctx, consistency, o.Load)
		if err != nil {
			return nil, nil, err
		}
		cells = append(cells, *cell)
	}
	return cells, r.Settings[1:], nil
}

// FitMembers fits the Universal Scalability Law to the cells of one kind of reads.
func FitMembers(cells []Cell, consistency Consistency, seed uint64) Law {
	law := Law{Consistency: consistency, Published: Published[consistency]}
	law.TheirPeak, _ = law.Published.Peak()
	var points []usl.Point
	for _, c := range cells {
		if c.Consistency == consistency {
			points = append(points, usl.Point{Nodes: float64(c.Members), PerSecond: c.PerSecond})
		}
	}
	fitted, err := usl.Fit(points, usl.Options{Seed: seed})
	if err != nil {
		law.Why = err.Error()
		return law
	}
	law.Fitted = fitted
	if peak, ok := fitted.Peak(); ok {
		law.Peak = &peak
	}
	return law
}
