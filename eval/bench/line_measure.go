package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// Work describes the requests to a line.
type Work struct {
	// Target is the node that the client is attached to and reads from; 0 is the head. Reads of
	// NetChain go through the line to the tail. Writes of all protocols go to the head.
	Target     int
	WriteShare float64 // of the requests, 0 to 1
	// Dirty requests objects that are dirty at all nodes but the tail: each was written while
	// acknowledgements were withheld. It requires a WriteShare of 0, because an acknowledged write
	// makes its object clean.
	Dirty       bool
	Slots       int         // NetCRAQ only: requests per frame; 0: one. Other protocols ignore it
	LossPercent float64     // loss of frames on every link; needs LineOptions.Wires
	Congestion  *Congestion // needs LineOptions.Wires
}

func (w *Work) validate(o *LineOptions) error {
	switch {
	case w.Target < 0 || w.Target >= o.Nodes:
		return wrongOption("target: 0 (the head) to %d (the tail), not %d", o.Nodes-1, w.Target)
	case w.WriteShare < 0 || w.WriteShare > 1:
		return wrongOption("write share: 0 to 1, not %v", w.WriteShare)
	case w.Dirty && w.WriteShare > 0:
		return wrongOption("dirty objects need a write share of 0, not %v: an acknowledged write makes its object clean",
			w.WriteShare)
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

// bundle returns the bundle of the work's requests.
func (w *Work) bundle(o *LineOptions) (bundle, error) {
	if o.Protocol != NetCRAQ {
		return bundle{}, nil
	}
	return newBundle(w.Slots, o.ValueBytes, w.WriteShare > 0, w.Dirty)
}

// LineFigure is the result of one measurement of a line.
type LineFigure struct {
	ReadsPerS  float64 `json:"reads_per_s"`  // correct answers to reads while requests were sent
	WritesPerS float64 `json:"writes_per_s"` // correct answers to writes
	Sent       uint64  `json:"sent"`
	Answered   uint64  `json:"answered"`
	Lost       uint64  `json:"lost"` // requests without an answer
	Wrong      uint64  `json:"wrong"`
	// DirtyCommits counts the writes applied by nodes other than the tail. Each was dirty until it
	// was acknowledged. It is 0 for NetChain.
	DirtyCommits uint64  `json:"dirty_commits"`
	Overflows    uint64  `json:"overflows"` // writes dropped because an object had no free cell
	LoadS        float64 `json:"load_s"`    // time during which requests were sent
	Batch        int     `json:"batch"`     // frames sent before the nodes may work
	Window       int     `json:"window"`    // limit of outstanding requests; 0: no limit
}

// loadKind is the key of a loaded generator: another value needs another load.
type loadKind struct {
	target     int
	writeShare float64
	timing     bool
	bundle     bundle
}

// paceKind is the key of a pace: another value needs another search.
type paceKind struct {
	load  loadKind
	dirty bool
}

// use loads the generator for this work unless it is already loaded.
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
	// This precedes makeDirty: agents of an earlier work would settle the dirty objects.
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
			op: wire.OpRead, writeShare: w.WriteShare, valueBytes: l.options.ValueBytes, keys: l.asked,
			dialect: l.dialect(), timing: timing,
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

// renew restores the initial objects of published NetCRAQ after writes under loss. Writes whose
// acknowledgements are lost occupy their cells for good. An object without a free cell drops every
// write, so that later figures would depend on earlier work.
func (l *Line) renew(ctx context.Context, w Work) error {
	stale := l.stale
	l.stale = l.options.Protocol == NetCRAQPaper && w.LossPercent > 0 && w.WriteShare > 0
	if !stale {
		return nil
	}
	return l.fill(ctx)
}

// makeClean writes every object again if the previous work made objects dirty and this one needs
// clean objects.
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

// Throughput measures the highest rate of answers for d. The first measurement of a kind of work
// includes the search for the pace.
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
		return LineFigure{}, fmt.Errorf("%s answered wrongly: %v", l.options.Protocol, f.Counters)
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

// countWrites sums the writes that nodes other than the tail applied, if the protocol has dirty
// objects, and the writes that all nodes dropped.
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
