package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// TestSweepUnderPressure: a table that fills up forgets entries earlier, but not before their clients have given up.
func TestSweepUnderPressure(t *testing.T) {
	p := &resting{plane: chain.New(chain.Options{Shards: 1, MaxSessions: 4, MaxObjects: 4})}
	s := newSweeper(p, DefaultSessionRest, func() wire.Tags { return p.tags }, quiet)
	sweep := func(after time.Duration, pressing bool, want int) {
		t.Helper()
		p.now += after
		if dropped, err := s.sweep(pressing); err != nil || dropped != want {
			t.Errorf("at %v: dropped %d, %v; want %d", p.now, dropped, err, want)
		}
	}
	p.plane.PutSession(chain.SessionKey{Session: 1}, chain.Session{Seq: 1})
	sweep(0, true, 0)
	sweep((wire.RestS-1)*time.Second, true, 0)
	p.tags = wire.TagsAccepted
	sweep(time.Second, true, 0)
	p.tags = wire.TagsOff
	sweep(0, false, 0)
	sweep(0, true, 1)
	p.plane.PutSession(chain.SessionKey{Session: 2}, chain.Session{Seq: 1})
	sweep(0, false, 0)
	sweep(DefaultSessionRest-time.Second, false, 0)
	sweep(time.Second, false, 1)
}

// resting is a plane of sessions alone.
type resting struct {
	dataplane.Plane
	plane *chain.Node
	now   time.Duration
	tags  wire.Tags
}

func (p *resting) Info() dataplane.Info { return dataplane.Info{} }
func (p *resting) Clock() uint64        { return uint64(p.now) }

func (p *resting) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	for k, s := range p.plane.Sessions() {
		visit(k, s)
	}
	return nil
}

func (p *resting) DropSession(k chain.SessionKey, seq uint64) error {
	p.plane.DropSession(k, seq)
	return nil
}

// TestSweep: a session goes when nothing was written in it between two sweeps.
func TestSweep(t *testing.T) {
	plane, client := listen(t), newTail(t)
	if _, err := New(Options{Name: "a", Cluster: clusterOf(plane.Addr()), Plane: plane}); err != nil {
		t.Fatal(err)
	}
	write := func(session, seq uint64) {
		t.Helper()
		client.send(plane.Addr(), put(t, fmt.Sprint("k", session), "v", session, seq))
		if m, ok := client.receive(patience); !ok || m.Status() != wire.StatusOk {
			t.Fatal("the write was not answered")
		}
	}
	s := newSweeper(plane, 1, func() wire.Tags { return wire.TagsOff }, quiet)
	for i, step := range []struct {
		writes  [][2]uint64 // session, seq
		dropped int
		left    int
	}{
		{[][2]uint64{{1, 1}, {2, 1}, {3, 1}}, 0, 3},
		{[][2]uint64{{2, 2}}, 2, 1},
		{[][2]uint64{{2, 3}, {1, 2}}, 0, 2},
		{nil, 2, 0},
		{nil, 0, 0},
	} {
		for _, w := range step.writes {
			write(w[0], w[1])
		}
		dropped, err := s.sweep(false)
		usage, usageErr := plane.Usage()
		if err != nil || usageErr != nil || dropped != step.dropped || usage.Sessions != step.left {
			t.Errorf("sweep %d: dropped %d, left %d (%v, %v); want %d, %d", i, dropped, usage.Sessions, err, usageErr, step.dropped, step.left)
		}
	}
	_ = plane.Sessions(func(k chain.SessionKey, _ chain.Session) bool { t.Error("left: ", k); return true })
}
