package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/history"
)

// TestJoinUnderLoad: nodes die, come back with nothing, and die while others copy from them, and no client sees anything
// that one key on one machine would not do.
func TestJoinUnderLoad(t *testing.T) {
	m := clitest.StartManaged(t, "127.2.6.1", "--shards", "8")
	addr := func(i int) string { return fmt.Sprintf("127.2.6.%d:4411", 10+i) }
	names := []string{"n1", "n2", "n3", "n4"}
	for i, name := range names {
		m.StartNode(name, addr(i))
	}
	m.Await("the first chains", clitest.FullyReplicated(3))
	stores := make([]history.Store, 4)
	for i := range stores {
		stores[i] = chaos.Store{Client: m.Client()}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	operations := make(chan []history.Op, 1)
	load := history.Workload{Clients: len(stores), Keys: 4, KeyOps: 300, For: 2 * clitest.Formed, Seed: 1, Prefix: "join-",
		Pause: time.Millisecond}
	go func() { operations <- load.Run(ctx, stores) }()
	clitest.Kill(m.Nodes["n2"])
	m.Await("the chains go on without n2", func(now *topology.Map) bool { return !clitest.Serves(now, "n2") })
	m.StartNode("n2", addr(1))
	m.Await("n2 is copied to", func(now *topology.Map) bool { return clitest.Serves(now, "n2") })
	clitest.Kill(m.Nodes["n3"]) // from which n2 may still copy
	m.Await("the chains are fully replicated without n3", func(now *topology.Map) bool {
		return clitest.FullyReplicated(3)(now) && !clitest.Serves(now, "n3")
	})
	m.StartNode("n3", addr(2))
	m.Await("n3 is a member again", func(now *topology.Map) bool {
		return clitest.FullyReplicated(3)(now) && clitest.Serves(now, "n3")
	})
	stop()
	history := checkHistory(t, <-operations)
	if history < 100 {
		t.Errorf("only %d operations", history)
	}
}

// TestFirstWriteWaits: a write before any node has joined waits until the nodes have formed chains. If no node joins, its
// error says that the cluster waits for nodes.
func TestFirstWriteWaits(t *testing.T) {
	m := clitest.StartManaged(t, "127.2.6.2", "--shards", "4", "--form-with", "1", "--replicas", "1")
	put := func(timeout string) error {
		_, _, err := clitest.Execute(t.Context(), kv.NewPutCommand(), "--controllers", m.Controller, "--timeout",
			timeout, "key", "value")
		return err
	}
	if err := put("3s"); err == nil || !strings.Contains(err.Error(), "waits for nodes") {
		t.Errorf("without nodes: %v", err)
	}
	written := make(chan error, 1)
	go func() { written <- put(clitest.Formed.String()) }()
	m.StartNode("n1", "127.2.6.30:4411")
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func checkHistory(t *testing.T, ops []history.Op) int {
	t.Helper()
	if verdict := history.Check(ops, clitest.Formed); !verdict.Linearizable() {
		t.Errorf("not linearizable: %+v", verdict)
	}
	return len(ops)
}

// TestAgentComesBack: an agent that comes back to a plane that lives on finds its node in the chains that it was in, and
// nothing is copied, also after the controllers have noticed its silence.
func TestAgentComesBack(t *testing.T) {
	for _, c := range []struct {
		name, host, suspect string
		noticed             bool
	}{{"at once", "127.2.7.1", "5m", false}, {"after its silence was noticed", "127.2.7.2", "2s", true}} {
		t.Run(c.name, func(t *testing.T) {
			m := clitest.StartManaged(t, c.host, "--shards", "4", "--replicas", "2", "--form-with", "2", "--suspect", c.suspect)
			m.StartNode("n1", c.host+":4411")
			outliving := newOutliving(t, m, c.host)
			outliving.start()
			m.Await("the first chains", clitest.FullyReplicated(2))
			put := m.Client()
			if _, err := put.Put(t.Context(), "key", []byte("v")); err != nil {
				t.Fatal(err)
			}
			before := m.Follower.Map().Version
			outliving.stop()
			await(t, "the agent's silence is noticed", func() bool {
				return !c.noticed || slices.ContainsFunc(clitest.Object[admin.Snapshot](m, "status").Notes, func(n string) bool {
					return strings.Contains(n, "its agent is silent")
				})
			})
			outliving.start()
			m.Await("the chains are fully replicated", clitest.FullyReplicated(2))
			outliving.leased()
			if after := m.Follower.Map().Version; after != before {
				t.Errorf("the map had version %d, and has %d", before, after)
			}
			if r, err := put.Get(t.Context(), "key"); err != nil || string(r.Value) != "v" {
				t.Errorf("%q, %v", r.Value, err)
			}
		})
	}
}

// outliving is a node whose plane outlives its agents, as one in the kernel does.
type outliving struct {
	t     *testing.T
	m     *clitest.Managed
	addr  netip.AddrPort
	plane *soft.Plane
	note  atomic.Pointer[[]byte]
	stop  func()
	agent *agent.Agent
}

func newOutliving(t *testing.T, m *clitest.Managed, host string) *outliving {
	return &outliving{t: t, m: m, addr: netip.MustParseAddrPort(host + ":4421")}
}

func (o *outliving) start() {
	o.t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	join := &agent.Join{Controllers: []string{o.m.Controller}, Capacity: defaultCapacity, Identity: agent.NewIdentity()}
	join.Remember = func(note []byte) error { o.note.Store(&note); return nil }
	var err error
	if note := o.note.Load(); note != nil {
		join.Identity, err = agent.ParseIdentity(*note)
	} else {
		join.Identity, err = join.Ask(o.t.Context(), "n2", o.addr.String(), "", log)
	}
	if err == nil && o.plane == nil {
		o.plane, err = soft.Listen(o.addr, chain.Options{Shards: join.Identity.Shards, CellBytes: join.Identity.CellBytes,
			MaxObjects: 100, MaxSessions: 100})
		o.t.Cleanup(func() { o.plane.Close() })
	}
	if err == nil {
		o.agent, err = agent.New(agent.Options{Name: "n2", Plane: o.plane, Join: join,
			API: o.addr.Addr().String() + ":4422", Log: log})
	}
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	done := make(chan error, 1)
	go func() { done <- o.agent.Serve(ctx) }()
	o.stop = func() {
		cancel()
		if err, open := <-done; open && err != nil {
			o.t.Error(err)
		}
		close(done)
		o.stop = func() {}
	}
	o.t.Cleanup(func() { o.stop() })
}

// leased waits until the node may answer reads.
func (o *outliving) leased() {
	o.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(clitest.Formed); time.Now().Before(end); <-tick.C {
		reports := agent.Inspect(o.t.Context(), []agent.Target{{API: o.agent.API()}}, nil)
		if m := reports[0].Membership; m != nil && m.LeaseLeftMS > 0 {
			return
		}
	}
	o.t.Fatal("the node has no lease")
}

func TestJoinErrors(t *testing.T) {
	path := clusterFile(t, "n1")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--join", "127.2.7.9", "--cluster", path}, "exclude each other"},
		{[]string{"--join", "127.2.7.9:x", "--addr", "127.2.7.9:4411"}, "is not a host and port"},
		{[]string{"--join", "127.2.7.9", "--addr", "127.2.7.9:4411", "--capacity", "0"}, "netcraq drain"},
		{[]string{"--join", "127.2.7.9", "--addr", "127.2.7.9:4411", "--shards", "4"}, "uses the cluster's values"},
		{[]string{"--join", "127.2.7.9"}, "give --cluster, or --addr"},
		{[]string{"--labels", "zone=a", "--addr", "127.2.7.9:4411"}, "needs --join"},
	} {
		_, _, err := clitest.Execute(t.Context(), newNodeCommand(), append(c.args, "--name", "n1", "--plane", "soft")...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
