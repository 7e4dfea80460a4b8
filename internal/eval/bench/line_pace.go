package bench

import (
	"context"
	"time"
)

// linePaces are at full speed, in which generator and nodes share a CPU and so keep step, with fewer and fewer frames at a
// time: what a tail makes of them has to fit a link's queue, and what suits one protocol need not suit another.
var linePaces = []pace{{batch: 64}, {batch: 32}, {batch: 16}, {batch: 8}, {batch: 4}}

// lineWindows are for work of which all of these lose requests.
var lineWindows = []pace{{batch: 8, window: 64, forgiving: true}, {batch: 4, window: 8, forgiving: true}}

// probed is what short measurements of a pace found.
type probed struct {
	pace
	lost      bool    // more than is tolerable, in any of them
	perSecond float64 // answers, summed over them
}

// paceOf returns the pace for the loaded work, and looks for it the first time. It does so without loss, so that what is
// measured under loss differs from what is not by the loss alone.
func (l *Line) paceOf(ctx context.Context, w Work) (pace, error) {
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

// findPace returns the pace with the highest rate that loses so little that its rate counts; if none is so, because the
// protocol loses requests itself, the one with the highest rate.
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

// probe tries paces, there and back, so that one that comes first or last has no advantage.
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

// fastest is the one with the highest rate, of those that lose little; if there are none, of all.
func fastest(tried []probed) probed {
	best := tried[0]
	for _, p := range tried[1:] {
		if best.lost && !p.lost || best.lost == p.lost && p.perSecond > best.perSecond {
			best = p
		}
	}
	return best
}

// lose lets the wires, if there are any, lose so many percent of the frames.
func (l *Line) lose(percent float64) error {
	if l.net.wires == nil {
		return nil
	}
	return l.net.wires.lose(percent)
}
