package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// Work is what is asked of a line.
type Work struct {
	// Target is the node at which the client is attached and which it reads from; 0 is the head. Reads of NetChain go
	// through the line to the tail, writes of all protocols to the head.
	Target     int
	WriteShare float64 // of the requests, 0 to 1
	// Dirty asks for objects that are dirty at all nodes but the tail: each was written while acknowledgements were
	// withheld. It goes with a WriteShare of 0, since a write that is acknowledged makes its object clean.
	Dirty       bool
	Slots       int         // of NetCRAQ: requests of a frame; 0: one. No other protocol has bundles: there it means nothing
	LossPercent float64     // of the frames on every link; needs LineOptions.Wires
	Congestion  *Congestion // needs LineOptions.Wires
}

func (w *Work) validate(o *LineOptions) error {
	switch {
	case w.Target < 0 || w.Target >= o.Nodes:
		return wrongOption("target: 0 (the head) to %d (the tail), not %d", o.Nodes-1, w.Target)
	case w.WriteShare < 0 || w.WriteShare > 1:
		return wrongOption("write share: 0 to 1, not %v", w.WriteShare)
	case w.Dirty && w.WriteShare > 0:
		return wrongOption("objects stay dirty only while nobody writes: a write share of 0, not %v", w.WriteShare)
	case w.LossPercent < 0 || w.LossPercent > 100:
		return wrongOption("loss: 0 to 100 percent, not %v", w.LossPercent)
	case (w.LossPercent > 0 || w.Congestion != nil) && !o.Wires:
		return wrongOption("loss and congestion need a line with wires")
	}
	if _, err := w.bundle(o); err != nil {
		return err
	}
	if w.Congestion != nil {
		return w.Congestion.validate()
	}
	return nil
}

// bundle is how the work's requests travel.
func (w *Work) bundle(o *LineOptions) (bundle, error) {
	if o.Protocol != NetCRAQ {
		return bundle{}, nil
	}
	return newBundle(w.Slots, o.ValueBytes, w.WriteShare > 0, w.Dirty)
}

// LineFigure is what a measurement of a line found.
type LineFigure struct {
	ReadsPerS  float64 `json:"reads_per_s"`  // right answers to reads while requests were sent
	WritesPerS float64 `json:"writes_per_s"` // right answers to writes
	Sent       uint64  `json:"sent"`
	Answered   uint64  `json:"answered"`
	Lost       uint64  `json:"lost"` // requests that nobody answered
	Wrong      uint64  `json:"wrong"`
	// DirtyCommits are writes that nodes other than the tail have applied, each dirty until it was acknowledged; NetChain
	// has none.
	DirtyCommits uint64  `json:"dirty_commits"`
	Overflows    uint64  `json:"overflows"` // writes that were dropped because an object had no cell left
	LoadS        float64 `json:"load_s"`    // for how long requests were sent
	Batch        int     `json:"batch"`     // frames that were sent before the nodes may work
	Window       int     `json:"window"`    // requests without an answer, at most; 0: any number
}

// loadKind is what the generator has to be loaded anew for.
type loadKind struct {
	target     int
	writeShare float64
	timing     bool
	bundle     bundle
}

// paceKind is what a pace has to be looked for anew for.
type paceKind struct {
	load  loadKind
	dirty bool
}

// use loads the generator for this work, if another is loaded.
func (l *Line) use(ctx context.Context, w Work, timing bool) error {
	if err := w.validate(&l.options); err != nil {
		return err
	}
	bundle, err := w.bundle(&l.options)
	if err != nil {
		return err
	}
	if w.WriteShare > 0 {
		l.dirty = false
	}
	if err := errors.Join(l.lose(0), l.renew(ctx, w)); err != nil {
		return err
	}
	// Before anything is made dirty: agents of an earlier work would settle it.
	if err := l.settle(w.LossPercent > 0); err != nil {
		return err
	}
	if w.Dirty {
		if err := l.makeDirty(ctx); err != nil {
			return err
		}
	} else if err := l.makeClean(ctx, w); err != nil {
		return err
	}
	kind := loadKind{w.Target, w.WriteShare, timing, bundle}
	if l.load == nil || l.loaded != kind {
		l.unload()
		r := &request{
			op: wire.OpRead, writeShare: w.WriteShare, valueBytes: l.options.ValueBytes, keys: l.asked, dialect: l.dialect(), timing: timing,
			bundle: bundle,
		}
		load, err := newLoad(r, l.way(w.Target), l.net.near[w.Target])
		if err != nil {
			return err
		}
		l.load, l.loaded = load, kind
	}
	return l.lose(w.LossPercent)
}

// renew gives published NetCRAQ its objects as they were at first, after writes under loss: those whose acknowledgements
// were lost wait in their cells for good, and with all cells taken an object drops every write, so that what is measured
// would depend on what was measured before.
func (l *Line) renew(ctx context.Context, w Work) error {
	worn := l.worn
	l.worn = l.options.Protocol == Published && w.LossPercent > 0 && w.WriteShare > 0
	if !worn {
		return nil
	}
	return l.fill(ctx)
}

// makeClean writes every object again if work without dirty objects follows such with.
func (l *Line) makeClean(ctx context.Context, w Work) error {
	if !l.dirty || w.WriteShare > 0 {
		return nil
	}
	l.dirty = false
	return l.writeAll(ctx, l.dialect())
}

func (l *Line) unload() {
	if l.load != nil {
		l.load.close()
		l.load = nil
	}
}

// Throughput measures the highest rate at which the line answers, for d. Before the first measurement of a kind of work it
// looks for the pace of that rate.
func (l *Line) Throughput(ctx context.Context, w Work, d time.Duration) (LineFigure, error) {
	if err := l.use(ctx, w, false); err != nil {
		return LineFigure{}, err
	}
	if w.Congestion != nil {
		return l.congested(ctx, w, d)
	}
	p, err := l.paceOf(ctx, w)
	if err != nil {
		return LineFigure{}, err
	}
	return l.measure(ctx, p, d)
}

// measure offers the loaded work at a pace.
func (l *Line) measure(ctx context.Context, p pace, d time.Duration) (LineFigure, error) {
	before, err := l.countWrites()
	if err != nil {
		return LineFigure{}, err
	}
	f, err := l.load.measure(ctx, p, d)
	if err != nil {
		return LineFigure{}, err
	}
	if f.Wrong+f.NotFound+f.Busy+f.Other > 0 {
		return LineFigure{}, fmt.Errorf("%s answered wrongly: %v", l.options.Protocol, f.Tally)
	}
	after, err := l.countWrites()
	if err != nil {
		return LineFigure{}, err
	}
	share := 0.0
	if f.OK > 0 {
		share = float64(f.OKWrites) / float64(f.OK)
	}
	return LineFigure{
		ReadsPerS: f.PerSecond * (1 - share), WritesPerS: f.PerSecond * share,
		Sent: f.Sent, Answered: f.Answers(), Lost: f.Lost(), Wrong: f.Wrong, LoadS: f.LoadS,
		DirtyCommits: after.applied - before.applied, Overflows: after.dropped - before.dropped,
		Batch: p.batchOr(sendBatch), Window: p.window,
	}, nil
}

// writeCounts are the nodes' counts of writes.
type writeCounts struct{ applied, dropped uint64 }

// countWrites sums what nodes other than the tail have applied, where that makes objects dirty, and what all have dropped.
func (l *Line) countWrites() (sum writeCounts, err error) {
	for i, n := range l.nodes {
		applied, dropped, err := n.writes()
		if err != nil {
			return sum, err
		}
		if i < len(l.nodes)-1 && l.options.Protocol != NetChain {
			sum.applied += applied
		}
		sum.dropped += dropped
	}
	return sum, nil
}
