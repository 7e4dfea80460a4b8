package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/history"
)

// formed is how long a cluster may take to do what it has to.
const formed = time.Minute

// managed is a cluster that a controller of the test runs, in processes of their own.
type managed struct {
	t          *testing.T
	controller string
	nodes      map[string]*exec.Cmd
	follower   *follow.Follower
}

// startManaged starts a controller on an address that is this test's, and waits for nothing.
func startManaged(t *testing.T, host string, flags ...string) *managed {
	t.Helper()
	m := &managed{t: t, controller: host + ":4413", nodes: make(map[string]*exec.Cmd)}
	m.run("controller", append([]string{"controller", "--listen", host, "--data-dir", t.TempDir()}, flags...)...)
	return m
}

// run starts the command in a process of its own, which ends with the test.
func (m *managed) run(name string, args ...string) *exec.Cmd {
	m.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also with a test that is killed
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		kill(cmd)
		if m.t.Failed() {
			m.t.Logf("log of %s:\n%s", name, &log)
		}
	})
	return cmd
}

// kill ends a process as kill -9 does, and waits until it is gone.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may be gone
	_ = cmd.Wait()         // that it was killed is no news
}

func (m *managed) startNode(name, addr string) {
	m.t.Helper()
	m.nodes[name] = m.run(name, "node", "--name", name, "--addr", addr, "--join", m.controller, "--plane", "soft", "--labels", "zone="+name)
}

// await waits until the map of the cluster is as it should be.
func (m *managed) await(what string, is func(*topology.Map) bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), formed)
	defer cancel()
	if m.follower == nil {
		var err error
		if m.follower, err = follow.Open(ctx, follow.Options{Addrs: []string{m.controller}}); err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { m.follower.Close() })
	}
	if m.follower.Await(ctx, is) != nil {
		m.t.Fatalf("%s: not within %v; the map is %+v", what, formed, m.follower.Map())
	}
}

// whole reports whether every chain has so many complete members.
func whole(members int) func(*topology.Map) bool {
	return func(m *topology.Map) bool {
		return len(m.Chains) > 0 && !slices.ContainsFunc(m.Chains, func(c topology.MapChain) bool { return len(c.Members) != members || c.Learner >= 0 })
	}
}

// serves reports whether a node is a member of a chain.
func serves(m *topology.Map, name string) bool {
	return slices.ContainsFunc(m.Chains, func(c topology.MapChain) bool { return slices.Contains(m.Names(&c), name) })
}

func (m *managed) client() *client.Client {
	m.t.Helper()
	c, err := client.New(client.Options{Follow: m.follower})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return c
}

// TestJoinUnderLoad: nodes die, come back with nothing, and die while others copy from them, and no client sees anything
// that one key on one machine would not do.
func TestJoinUnderLoad(t *testing.T) {
	m := startManaged(t, "127.1.6.1", "--shards", "8")
	addr := func(i int) string { return fmt.Sprintf("127.1.6.%d:4411", 10+i) }
	names := []string{"n1", "n2", "n3", "n4"}
	for i, name := range names {
		m.startNode(name, addr(i))
	}
	m.await("the first chains", whole(3))
	stores := make([]history.Store, 4)
	for i := range stores {
		stores[i] = chaos.Store{Client: m.client()}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	operations := make(chan []history.Op, 1)
	load := history.Workload{Clients: len(stores), Keys: 4, KeyOps: 300, For: 2 * formed, Seed: 1, Prefix: "join-", Pause: time.Millisecond}
	go func() { operations <- load.Run(ctx, stores) }()
	kill(m.nodes["n2"])
	m.await("the chains go on without n2", func(now *topology.Map) bool { return !serves(now, "n2") })
	m.startNode("n2", addr(1))
	m.await("n2 is copied to", func(now *topology.Map) bool { return serves(now, "n2") })
	kill(m.nodes["n3"]) // from which n2 may still copy
	m.await("the chains are whole without n3", func(now *topology.Map) bool { return whole(3)(now) && !serves(now, "n3") })
	m.startNode("n3", addr(2))
	m.await("n3 is a member again", func(now *topology.Map) bool { return whole(3)(now) && serves(now, "n3") })
	stop()
	history := checkHistory(t, <-operations)
	if history < 100 {
		t.Errorf("only %d operations", history)
	}
}

// TestFirstWriteWaits: a write that comes before the nodes is made once they have formed chains, and one that no nodes ever
// come for says what is missing.
func TestFirstWriteWaits(t *testing.T) {
	m := startManaged(t, "127.1.6.2", "--shards", "4", "--form-with", "1", "--replicas", "1")
	put := func(timeout string) error {
		_, _, err := execute(t.Context(), newPutCommand(), "--controllers", m.controller, "--timeout", timeout, "key", "value")
		return err
	}
	if err := put("3s"); err == nil || !strings.Contains(err.Error(), "waits for nodes") {
		t.Errorf("without nodes: %v", err)
	}
	written := make(chan error, 1)
	go func() { written <- put(formed.String()) }()
	m.startNode("n1", "127.1.6.30:4411")
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func checkHistory(t *testing.T, ops []history.Op) int {
	t.Helper()
	if verdict := history.Check(ops, formed); !verdict.Linearizable() {
		t.Errorf("not linearizable: %+v", verdict)
	}
	return len(ops)
}

// TestAgentComesBackInTime: an agent that comes back to its plane before anybody suspects it is in the chains that it was
// in, and nothing is copied. One that comes back later has to begin anew.
func TestAgentComesBackInTime(t *testing.T) {
	for _, c := range []struct {
		name, host, suspect string
		suspected           bool
	}{{"in time", "127.1.7.1", "5m", false}, {"too late", "127.1.7.2", "2s", true}} {
		t.Run(c.name, func(t *testing.T) {
			m := startManaged(t, c.host, "--shards", "4", "--replicas", "2", "--form-with", "2", "--suspect", c.suspect)
			m.startNode("n1", c.host+":4411")
			outliving := newOutliving(t, m, c.host)
			outliving.start()
			m.await("the first chains", whole(2))
			put := m.client()
			if _, err := put.Put(t.Context(), "key", []byte("v")); err != nil {
				t.Fatal(err)
			}
			outliving.stop()
			if c.suspected {
				m.await("it is suspected", whole(1))
			}
			before := m.follower.Map().Version
			outliving.start()
			m.await("the chains are whole", whole(2))
			outliving.leased()
			if after := m.follower.Map().Version; (after != before) != c.suspected {
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
	m     *managed
	addr  netip.AddrPort
	plane *soft.Plane
	note  atomic.Pointer[[]byte]
	stop  func()
	agent *agent.Agent
}

func newOutliving(t *testing.T, m *managed, host string) *outliving {
	return &outliving{t: t, m: m, addr: netip.MustParseAddrPort(host + ":4421")}
}

func (o *outliving) start() {
	o.t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	join := &agent.Join{Controllers: []string{o.m.controller}, Capacity: defaultCapacity, Identity: agent.NewIdentity()}
	join.Remember = func(note []byte) error { o.note.Store(&note); return nil }
	var err error
	if note := o.note.Load(); note != nil {
		join.Identity, err = agent.ParseIdentity(*note)
	} else {
		join.Identity, err = join.Ask(o.t.Context(), "n2", o.addr.String(), "", log)
	}
	if err == nil && o.plane == nil {
		o.plane, err = soft.Listen(o.addr, chain.Options{Shards: join.Identity.Shards, CellBytes: join.Identity.CellBytes, MaxObjects: 100, MaxSessions: 100})
		o.t.Cleanup(func() { o.plane.Close() })
	}
	if err == nil {
		o.agent, err = agent.New(agent.Options{Name: "n2", Plane: o.plane, Join: join, API: o.addr.Addr().String() + ":4422", Log: log})
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
	for end := time.Now().Add(formed); time.Now().Before(end); <-tick.C {
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
		{[]string{"--join", "127.1.7.9", "--cluster", path}, "not from both"},
		{[]string{"--join", "127.1.7.9:x", "--addr", "127.1.7.9:4411"}, "is not a host and port"},
		{[]string{"--join", "127.1.7.9", "--addr", "127.1.7.9:4411", "--capacity", "0"}, "drained"},
		{[]string{"--join", "127.1.7.9", "--addr", "127.1.7.9:4411", "--shards", "4"}, "those of the cluster"},
		{[]string{"--join", "127.1.7.9"}, "Give --cluster, or --addr"},
		{[]string{"--labels", "zone=a", "--addr", "127.1.7.9:4411"}, "give --join"},
	} {
		_, _, err := execute(t.Context(), newNodeCommand(), append(c.args, "--name", "n1", "--plane", "soft")...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
