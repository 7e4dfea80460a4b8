package agent

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// At most maxProbes keys are probed in each probeSpan. A later refusal reports the others again, and the resyncer finds them
// in any case.
const (
	probeSpan = 10 * time.Millisecond
	maxProbes = 64
)

// prober asks the tail about contended keys. Otherwise a CAS or ADD would be refused until the resyncer has found the object
// dirty twice. The head asks the tail too: mostly only the ACK was lost. After a lost UPDATE, the client's retry sends it again
// sooner than the resyncer; the resyncer does it for a client that gave up.
type prober struct {
	plane dataplane.Plane
	begin time.Time // of the present span
	sent  int       // probes in it
}

// probeContended probes the contended keys of the plane until the context ends.
func (a *Agent) probeContended(ctx context.Context) {
	s := prober{plane: a.options.Plane}
	report := reporter{log: a.log, what: "cannot probe contended keys"}
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-s.plane.Contended():
			report.result(s.probe(key, time.Now()))
		}
	}
}

// probe sends a PROBE (W9) if the object is still dirty.
func (s *prober) probe(key wire.Key, now time.Time) error {
	if now.Sub(s.begin) >= probeSpan {
		s.begin, s.sent = now, 0
	}
	if s.sent == maxProbes {
		return nil
	}
	s.sent++
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
