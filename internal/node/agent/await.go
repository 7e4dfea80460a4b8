package agent

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Within each time span so many objects that writers wait for are asked about at most; a refusal that comes later tells of
// the others again, and the settler finds them in any case.
const (
	askSpan = 10 * time.Millisecond
	maxAsks = 64
)

// asker sends what gets objects clean that somebody waits for: a CAS or ADD would otherwise be refused until the settler
// has found the object dirty twice. It asks the tail, at the head too: mostly only the ACK was lost. A lost UPDATE is
// sent again by its client sooner than the settler would have to, and after a client that gave up by the settler.
type asker struct {
	plane dataplane.Plane
	begin time.Time // of the present span
	asked int       // in it
}

func (a *Agent) answerAwaited(ctx context.Context) {
	s := asker{plane: a.options.Plane}
	report := reporter{log: a.log, what: "cannot ask about objects that writers wait for"}
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-s.plane.Awaited():
			report.result(s.ask(key, time.Now()))
		}
	}
}

// ask sends a PROBE if the object is still dirty.
func (s *asker) ask(key wire.Key, now time.Time) error {
	if now.Sub(s.begin) >= askSpan {
		s.begin, s.asked = now, 0
	}
	if s.asked == maxAsks {
		return nil
	}
	s.asked++
	o, found, err := s.plane.Object(key)
	if err != nil || !found {
		return err
	}
	shard := key.Shard(s.plane.Info().Options.Shards)
	config, err := s.plane.Config(shard)
	if err != nil {
		return err
	}
	if send, due := chain.Probe(config, shard, key, o); due {
		return s.plane.Send(send)
	}
	return nil
}
