package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// TestLostUpdate (W9): a write whose UPDATE was lost and whose client gave up is brought down the chain by the head's
// agent: in the writer's session, or in the agent's own if that is gone.
func TestLostUpdate(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		t.Run(fmt.Sprintf("session forgotten %v", forgotten), func(t *testing.T) {
			head, last := listen(t), listen(t)
			cluster := clusterOf(head.Addr(), last.Addr())
			for i := range cluster.Nodes {
				cluster.Nodes[i].API = newPort(t)
			}
			startAt(t, cluster.Nodes[0].API, Options{Name: "a", Cluster: cluster, Plane: head})
			lastAPI := startAt(t, cluster.Nodes[1].API, Options{Name: "b", Cluster: cluster, Plane: last})
			serving(t, head, last)
			setState(t, lastAPI, agentv1.State_STATE_FROZEN)
			client := newTail(t)
			client.send(head.Addr(), put(t, "k", "v", 7, 1))
			eventually(t, "the tail refuses the update", func() bool {
				counters, err := last.Counters()
				return err == nil && counters[chain.Counter{Op: wire.OpUpdate, Outcome: wire.OutcomeInactive}] > 0
			})
			if o, _ := object(t, head, "k"); o.Clean() {
				t.Fatal("the head's object is clean though the tail has not seen it")
			}
			session := chain.SessionKey{Session: 7, Shard: hash(t, "k").Shard(shards)}
			if forgotten {
				if err := head.DropSession(session, 1); err != nil {
					t.Fatal(err)
				}
			}
			setState(t, lastAPI, agentv1.State_STATE_ACTIVE)
			eventually(t, "the head's object is clean", func() bool { o, ok := object(t, head, "k"); return ok && o.Clean() })
			if o, _ := object(t, last, "k"); string(o.Value) != "v" || o.Version != 1 || !o.Clean() {
				t.Fatalf("the tail has %+v", o)
			}
			if known := sessionOf(t, last, session).Seq == 1; known == forgotten {
				t.Fatalf("the tail knows the writer's session: %v", known)
			}
		})
	}
}

func setState(t *testing.T, api agentv1.AgentClient, state agentv1.State) {
	t.Helper()
	now, err := api.Shards(context.Background(), &agentv1.ShardsRequest{})
	if err != nil || len(now.Configs) != 1 {
		t.Fatal(now, err)
	}
	now.Configs[0].State = state
	if _, err := api.Configure(context.Background(), &agentv1.ConfigureRequest{Configs: now.Configs}); err != nil {
		t.Fatal(err)
	}
}

func sessionOf(t *testing.T, plane dataplane.Plane, key chain.SessionKey) (found chain.Session) {
	t.Helper()
	err := plane.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		if k == key {
			found = s
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLostACK (W9): an inner node whose ACK was lost asks the tail.
func TestLostACK(t *testing.T) {
	head, inner, last := newTail(t), listen(t), newTail(t)
	start(t, Options{Name: "b", Cluster: clusterOf(head.addr(), inner.Addr(), last.addr()), Plane: inner, AcceptDataLoss: true})
	serving(t, inner)
	update := put(t, "k", "v", 7, 1)
	update.Op, update.ClientOp, update.Client, update.Version = wire.OpUpdate, wire.OpPut, head.addr(), 1
	head.send(inner.Addr(), update)
	for probed := false; !probed; {
		m, ok := last.receive(patience)
		if !ok {
			t.Fatal("the tail was not asked")
		}
		probed = m.Op == wire.OpProbe
	}
	last.send(inner.Addr(), wire.Message{Op: wire.OpAck, Epoch: 1, Shard: update.Shard, Key: update.Key, Version: 1})
	eventually(t, "clean", func() bool { o, _ := object(t, inner, "k"); return o.Clean() })
}

// scans counts the looks that go through the plane's objects.
type scans struct {
	dataplane.Plane
	count int
}

func (s *scans) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	s.count++
	return s.Plane.Dirty(limit)
}

// TestLooks: tries for one object grow rarer, and a plane in which nothing was written is not scanned at all.
func TestLooks(t *testing.T) {
	head, inner, last := newTail(t), listen(t), newTail(t)
	configured(t, Options{Name: "b", Cluster: clusterOf(head.addr(), inner.Addr(), last.addr()), Plane: inner})
	plane := &scans{Plane: inner}
	s := newResyncer(plane, quiet)
	look := func(times int) {
		t.Helper()
		for range times {
			if err := s.look(); err != nil {
				t.Fatal(err)
			}
		}
	}
	look(10)
	if plane.count != quietLooks {
		t.Errorf("%d scans of an idle plane, want %d", plane.count, quietLooks)
	}
	update := put(t, "k", "v", 7, 1)
	update.Op, update.ClientOp, update.Client, update.Version = wire.OpUpdate, wire.OpPut, head.addr(), 1
	head.send(inner.Addr(), update)
	if m, ok := last.receive(patience); !ok || m.Op != wire.OpUpdate {
		t.Fatal("the update was not passed on")
	}
	plane.count = 0
	look(100)
	if plane.count != 100 {
		t.Errorf("%d scans of 100 while an object is dirty", plane.count)
	}
	for range []int{2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 96} {
		if m, ok := last.receive(patience); !ok || m.Op != wire.OpProbe {
			t.Fatal("a probe is missing")
		}
	}
	marker := wire.Message{Op: wire.OpAck}
	head.send(last.addr(), marker)
	if m, ok := last.receive(patience); !ok || m.Op != marker.Op {
		t.Error("more than 11 probes in 100 looks")
	}
}

// TestPauses: looks are rare while nothing is written or no write is lost, and often from the moment on at which an
// object stays dirty or shards are configured.
func TestPauses(t *testing.T) {
	plane := &changing{Plane: listen(t)}
	s := newResyncer(plane, quiet)
	look := func(times int) {
		t.Helper()
		for range times {
			plane.changes++
			if err := s.look(); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if is := s.pause(1); is != want {
			t.Errorf("%s: a pause of %d looks, want %d", what, is, want)
		}
	}
	plane.inFlight = true
	look(calmLooks)
	expect("writes", 1)
	look(1)
	expect("writes of which none was lost", drowsiness)
	plane.inFlight = false
	look(2)
	expect("an object that stays dirty", 1)
	plane.inFlight = true
	look(calmLooks + 2)
	expect("no such object any more", drowsiness)
	s.wake()
	look(1)
	expect("configured shards", 1)
}

// changing is a plane with one dirty object and a counter of changes. In flight, the object's version differs at each look.
type changing struct {
	dataplane.Plane
	changes  uint64
	inFlight bool
	version  uint64
}

func (c *changing) Counters() (chain.Counters, error) {
	return chain.Counters{{Op: wire.OpUpdate, Outcome: wire.OutcomeApplied}: c.changes}, nil
}

func (c *changing) Dirty(int) ([]dataplane.KeyedObject, error) {
	if c.inFlight {
		c.version++
	}
	return []dataplane.KeyedObject{{Key: wire.Key{Lo: 1}, Object: chain.Object{Version: c.version}}}, nil
}
