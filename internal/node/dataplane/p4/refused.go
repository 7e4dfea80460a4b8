package p4

import (
	"slices"
	"time"

	"github.com/netcraq/netcraq/wire"
)

const (
	// refusedEvery is how often the plane looks for refused writes. An ACK that is only late has arrived by then.
	refusedEvery = 25 * time.Millisecond
	// mostReported are the dirty objects that are reported at a time.
	mostReported = 64
)

// refusedOps are the messages that the head answers BUSY while the object is dirty (W5).
var refusedOps = []wire.Op{wire.OpCAS, wire.OpAdd, wire.OpForward}

// watchRefused reports dirty objects when writes have been refused since the last look.
func (p *Plane) watchRefused() {
	ticker := time.NewTicker(refusedEvery)
	defer ticker.Stop()
	var before []uint64
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
		}
		now, err := p.refused()
		if err != nil {
			if p.sw.Err() != nil {
				return
			}
			continue
		}
		if !slices.Equal(before, now) && before != nil {
			if err := p.reportDirty(); err != nil {
				continue // the counts are compared again
			}
		}
		before = now
	}
}

func (p *Plane) refused() ([]uint64, error) {
	counts := make([]uint64, len(refusedOps))
	var r Request
	for i, op := range refusedOps {
		r.Read(regOutcomes, int(op)<<6|int(wire.OutcomeBusy), counts[i:i+1])
	}
	return counts, p.sw.Do(&r)
}

// reportDirty reports objects as contended. Those beyond the channel's room are reported after the next refusal.
func (p *Plane) reportDirty() error {
	dirty, err := p.Dirty(mostReported)
	for _, o := range dirty {
		select {
		case p.contended <- o.Key:
		default:
		}
	}
	return err
}
