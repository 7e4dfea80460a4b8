package bench

import (
	"context"
	"time"
)

// linePaces run at full speed, where generator and nodes share a CPU and so keep step, with
// decreasing batches. The tail's packets for a batch have to fit a link's queue, so the best batch
// depends on the protocol.
var linePaces = []pace{{batch: 64}, {batch: 32}, {batch: 16}, {batch: 8}, {batch: 4}}

// lineWindows are the paces for work that loses requests at all linePaces.
var lineWindows = []pace{{batch: 8, window: 64, forgiving: true}, {batch: 4, window: 8, forgiving: true}}

// probed is the result of short measurements of a pace.
type probed struct {
	pace
	lost      bool    // some measurement lost more than is tolerable
	perSecond float64 // answers, summed over them
}

// paceOf returns the pace for the loaded work and finds it on first use. The search runs without
// loss, so that figures with and without loss differ by the loss alone.
func (l *Line) paceOf(ctx context.Context, w Work) (pace, error) {
	if l.options.P4 {
		return switchPace, nil
	}
	kind := paceKind{l.loaded, w.Dirty}
	if p, ok := l.paces[kind]; ok {
		return p, nil
	}
	if err := l.lose(0); err != nil {
		return pace{}, err
	}
	p, err := l.findPace(ctx)
	if err != nil {
		return p, err
	}
	l.paces[kind] = p
	return p, l.lose(w.LossPercent)
}

// findPace returns the pace with the highest rate among those with tolerable loss. If all lose
// more, because the protocol itself loses requests, it returns the one with the highest rate.
func (l *Line) findPace(ctx context.Context) (pace, error) {
	tried, err := l.probe(ctx, linePaces)
	if err != nil {
		return pace{}, err
	}
	best := fastest(tried)
	if best.lost {
		more, err := l.probe(ctx, lineWindows)
		if err != nil {
			return pace{}, err
		}
		best = fastest(append(tried, more...))
	}
	return best.pace, nil
}

// probe tries the paces in order and in reverse, so that the order favours none.
func (l *Line) probe(ctx context.Context, paces []pace) ([]probed, error) {
	const trial = 6 * time.Millisecond
	tried := make([]probed, len(paces))
	for i := range 2 * len(paces) {
		if i >= len(paces) {
			i = 2*len(paces) - 1 - i
		}
		f, err := l.load.measure(ctx, paces[i], trial)
		if err != nil {
			return nil, err
		}
		tried[i].pace = paces[i]
		tried[i].lost = tried[i].lost || !f.tolerable()
		tried[i].perSecond += f.PerSecond
	}
	return tried, nil
}

// fastest returns the pace with the highest rate among those with tolerable loss, or among all if
// there is none.
func fastest(tried []probed) probed {
	best := tried[0]
	for _, p := range tried[1:] {
		if best.lost && !p.lost || best.lost == p.lost && p.perSecond > best.perSecond {
			best = p
		}
	}
	return best
}

// lose sets the loss of the wires in percent, if the line has wires.
func (l *Line) lose(percent float64) error {
	if l.net.wires == nil {
		return nil
	}
	return l.net.wires.lose(percent)
}
