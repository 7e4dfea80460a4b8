package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/wire"
)

// statics are the nodes of a static cluster, each with its process: a plane and an agent.
type statics struct {
	t       *testing.T
	cluster *topology.Cluster
	planes  []*soft.Plane
	agents  []*Agent
	stops   []func() error // end the agents; nil: none runs
	done    []chan struct{}
}

// newStatics makes a cluster of nodes that do not run. Chains name nodes by number; without one all nodes are in one.
func newStatics(t *testing.T, nodes int, chains ...[]int) *statics {
	t.Helper()
	s := &statics{t: t, planes: make([]*soft.Plane, nodes), agents: make([]*Agent, nodes)}
	s.stops, s.done = make([]func() error, nodes), make([]chan struct{}, nodes)
	s.cluster = &topology.Cluster{Epoch: 1, Shards: shards}
	var all []int
	for i := range nodes {
		all = append(all, i)
		s.planes[i] = listen(t)
		s.cluster.Nodes = append(s.cluster.Nodes,
			topology.Node{Name: string(rune('a' + i)), Addr: s.planes[i].Addr(), API: newPort(t)})
	}
	if len(chains) == 0 {
		chains = [][]int{all}
	}
	for _, chain := range chains {
		var names []string
		for _, i := range chain {
			names = append(names, s.cluster.Nodes[i].Name)
		}
		s.cluster.Chains = append(s.cluster.Chains, names)
	}
	t.Cleanup(func() {
		for i := range s.stops {
			if err := s.stop(i); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// start runs the agent of a node, beside the plane as it is.
func (s *statics) start(i int, accept bool) {
	s.t.Helper()
	node := s.cluster.Nodes[i]
	a, err := New(Options{
		Name: node.Name, Cluster: s.cluster, Plane: s.planes[i], API: node.API, Log: quiet, AcceptDataLoss: accept,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = a.Serve(ctx)
	}()
	s.agents[i], s.done[i] = a, done
	s.stops[i] = func() error { cancel(); <-done; return err }
}

// stop ends the agent of a node; its plane goes on, as xdp planes do.
func (s *statics) stop(i int) error {
	if s.stops[i] == nil {
		return nil
	}
	stop := s.stops[i]
	s.stops[i] = nil
	return stop()
}

// lose kills a node: what it stored is gone, and a new plane has its address.
func (s *statics) lose(i int) {
	s.t.Helper()
	if err := s.stop(i); err != nil {
		s.t.Fatal(err)
	}
	s.planes[i].Close()
	plane, err := soft.Listen(s.cluster.Nodes[i].Addr, testOptions)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { plane.Close() })
	s.planes[i] = plane
}

// ended waits until the agent of a node has ended by itself and returns its error.
func (s *statics) ended(i int) error {
	s.t.Helper()
	eventually(s.t, "the agent has ended", func() bool {
		select {
		case <-s.done[i]:
			return true
		default:
			return false
		}
	})
	return s.stop(i)
}

// awaits waits until a node without state waits for exactly these others.
func (s *statics) awaits(i int, names ...string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("node %d waits for %v", i, names), func() bool {
		return !s.agents[i].Configured() && fmt.Sprint(s.agents[i].formation.names()) == fmt.Sprint(names)
	})
	for shard := range uint16(shards) {
		if config, err := s.planes[i].Config(shard); err != nil || config.State != chain.None {
			s.t.Fatalf("node %d waits, but serves shard %d: %v", i, shard, err)
		}
	}
}

// write puts a value through the head of a key's chain and waits until all members have it.
func (s *statics) write(key string, session uint64) {
	s.t.Helper()
	members := s.cluster.Members(hash(s.t, key).Shard(shards))
	client := newTail(s.t)
	client.send(members[0], put(s.t, key, "v", session, 1))
	for _, plane := range s.planes {
		for _, member := range members {
			if plane.Addr() == member {
				eventually(s.t, "the write is committed", func() bool { o, ok := object(s.t, plane, key); return ok && o.Clean() })
			}
		}
	}
}

func (s *statics) isLost(err error, i int) {
	s.t.Helper()
	var lost *StateLostError
	if !errors.As(err, &lost) || lost.Node != s.cluster.Nodes[i].Name {
		s.t.Fatalf("node %d lost its state and ended with: %v", i, err)
	}
}

// TestFirstFormation (C10): empty nodes start without a flag in any order, however long the last one takes, and none
// serves before it could be told of a loss.
func TestFirstFormation(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		s := newStatics(t, 3)
		names := []string{"a", "b", "c"}
		s.start(order[0], false)
		s.start(order[1], false)
		s.awaits(order[0], names[order[2]])
		s.awaits(order[1], names[order[2]])
		s.start(order[2], false)
		serving(t, s.planes...)
		s.write("k", 1)
	}
}

// TestNewChainHasCountedNothing: nodes that start together ask each other's agents before they serve, so that their data
// planes have refused nothing when they begin to.
func TestNewChainHasCountedNothing(t *testing.T) {
	s := newStatics(t, 3)
	for i := range s.planes {
		s.start(i, false)
	}
	serving(t, s.planes...)
	for i, plane := range s.planes {
		counters, err := plane.Counters()
		if err != nil {
			t.Fatal(err)
		}
		for counter, n := range counters {
			if counter.Outcome == wire.OutcomeNotMine && n != 0 {
				t.Errorf("node %d has refused %d of op %v", i, n, counter.Op)
			}
		}
	}
}

// TestLostStateAmongSilentNodes (C10): a node that lost its state, while the others do not answer for a moment, waits and
// does not serve; when one answers, it ends. The others go on with what they store.
func TestLostStateAmongSilentNodes(t *testing.T) {
	for lost := range 3 {
		s := newStatics(t, 3)
		for i := range s.planes {
			s.start(i, false)
		}
		serving(t, s.planes...)
		s.write("k", 1)
		others := []int{(lost + 1) % 3, (lost + 2) % 3}
		for _, i := range others {
			if err := s.stop(i); err != nil {
				t.Fatal(err)
			}
		}
		s.lose(lost)
		s.start(lost, false)
		low, high := min(others[0], others[1]), max(others[0], others[1])
		s.awaits(lost, s.cluster.Nodes[low].Name, s.cluster.Nodes[high].Name)
		s.start(others[0], false) // it kept its state and asks nothing
		s.isLost(s.ended(lost), lost)
		if o, ok := object(t, s.planes[others[0]], "k"); !ok || o.Version != 1 {
			t.Errorf("node %d has %+v", others[0], o)
		}
	}
}

// TestLostStateInOverlappingChains (C10): no other node is only in chains of the one that lost its state.
func TestLostStateInOverlappingChains(t *testing.T) {
	s := newStatics(t, 4, []int{0, 1, 2}, []int{1, 2, 3}, []int{2, 3, 0}, []int{3, 0, 1})
	for i := range s.planes {
		s.start(i, false)
	}
	eventually(t, "all serve", func() bool {
		for _, a := range s.agents {
			if !a.Configured() {
				return false
			}
		}
		return true
	})
	for session, found := uint64(1), 0; found < shards; session++ { // a key of each shard
		key := fmt.Sprint("k", session)
		if int(hash(t, key).Shard(shards)) == found {
			s.write(key, session)
			found++
		}
	}
	lost := rand.IntN(4)
	s.lose(lost)
	s.start(lost, false)
	s.isLost(s.ended(lost), lost)
}

// TestEmptyChainTakesNodesBack (C10): where nothing was written, nothing is lost.
func TestEmptyChainTakesNodesBack(t *testing.T) {
	s := newStatics(t, 3)
	for i := range s.planes {
		s.start(i, false)
	}
	serving(t, s.planes...)
	s.lose(1)
	s.start(1, false)
	serving(t, s.planes...)
	s.write("k", 1)
}

// TestKeptStateAsksNobody (C10): agents restart beside their planes while no other answers.
func TestKeptStateAsksNobody(t *testing.T) {
	s := newStatics(t, 3)
	for i := range s.planes {
		s.start(i, false)
	}
	serving(t, s.planes...)
	s.write("k", 1)
	for i := range s.planes {
		if err := s.stop(i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.planes {
		s.start(i, false)
		if !s.agents[i].Configured() {
			t.Errorf("node %d waits beside a plane that kept its state", i)
		}
	}
	s.write("q", 2)
}

// TestWritesBeforeAllServe (C10): a node that was met without state may begin late, though the others store writes by
// then; a later process of that node may not.
func TestWritesBeforeAllServe(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		s := newStatics(t, 2)
		late, err := New(Options{Name: "b", Cluster: s.cluster, Plane: s.planes[1], API: s.cluster.Nodes[1].API, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answering := make(chan error, 1)
		go func() { answering <- late.serveAPI(ctx) }()
		s.start(0, false)
		serving(t, s.planes[0])
		newTail(t).send(s.planes[0].Addr(), put(t, "k", "v", 1, 1))
		eventually(t, "the head stores the write", func() bool { _, ok := object(t, s.planes[0], "k"); return ok })
		if !restarted {
			if err := late.form(t.Context(), s.cluster); err != nil {
				t.Errorf("a node that was met: %v", err)
			}
		}
		cancel()
		if err := <-answering; err != nil {
			t.Fatal(err)
		}
		if restarted {
			s.start(1, false)
			s.isLost(s.ended(1), 1)
		}
	}
}

// TestAcceptedDataLoss (C10): with the flag a node serves although others are silent. One that comes back with writes
// ends it.
func TestAcceptedDataLoss(t *testing.T) {
	s := newStatics(t, 3)
	for i := range s.planes {
		s.start(i, false)
	}
	serving(t, s.planes...)
	s.write("k", 1)
	for i := range s.planes {
		if err := s.stop(i); err != nil {
			t.Fatal(err)
		}
	}
	s.lose(0)
	s.start(0, true)
	serving(t, s.planes[0])
	s.start(2, false)
	s.isLost(s.ended(0), 0)
}
