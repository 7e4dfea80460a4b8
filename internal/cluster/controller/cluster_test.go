package controller

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// patience bounds each wait of a test.
const patience = 30 * time.Second

// TestMain lets the cluster keep its time on a busy machine, as the commands do.
func TestMain(m *testing.M) {
	if err := scheduling.Raise(scheduling.RealTime); err != nil {
		fmt.Fprintln(os.Stderr, "may be slow on a busy machine:", err)
	}
	os.Exit(m.Run())
}

// logOf writes to the test's log if NETCRAQ_TEST_LOG is set. Otherwise it discards lines, because goroutines may outlive the
// test.
func logOf(name string) *slog.Logger {
	if os.Getenv("NETCRAQ_TEST_LOG") == "" {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", name)
}

// slack makes the times of a cluster long enough for a machine that runs other tests too.
func slack() reconfig.Settings {
	return reconfig.Settings{Shards: 16, CellBytes: 64, Heartbeat: 50 * time.Millisecond, Lease: time.Second, Suspect: 700 * time.Millisecond}
}

// running is something that serves until it is stopped.
type running struct {
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func run(t *testing.T, serve func(context.Context) error) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t, stop, make(chan error, 1)}
	go func() { r.done <- serve(ctx) }()
	t.Cleanup(r.end)
	return r
}

// end stops it and waits. It may be called again.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	err, open := <-r.done
	if err != nil {
		r.t.Error(err)
	}
	if open {
		close(r.done)
	}
}

// cluster is controllers and nodes of a test.
type cluster struct {
	t           *testing.T
	settings    reconfig.Settings
	addresses   []string
	first       int // controllers that form the cluster
	dirs        []string
	peers       map[string]string
	endpoints   []string // of an etcd that is not the controllers' own; empty: it is
	controllers []*Controller
	serving     []*running
	nodes       map[string]*node
	log         *slog.Logger       // of nodes started from now on; nil: the test's
	remember    func([]byte) error // keeps their identities; nil: their planes end with the agents
	machines    Machines           // of the controllers; nil: none
}

type node struct {
	plane   *soft.Plane
	agent   *running
	serving *running // both
}

// freeAddresses returns unused TCP addresses of loopback.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		listener, err := net.Listen("tcp4", "127.1.8.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		all = append(all, listener.Addr().String())
	}
	return all
}

// newCluster starts controllers. Their etcd is embedded.
func newCluster(t *testing.T, controllers int, s reconfig.Settings) *cluster {
	t.Helper()
	return newClusterOf(t, controllers, s, nil)
}

func newClusterOf(t *testing.T, controllers int, s reconfig.Settings, machines Machines) *cluster {
	t.Helper()
	free := freeAddresses(t, 2*controllers)
	c := &cluster{
		t: t, settings: s, first: controllers, addresses: free[:controllers], peers: map[string]string{}, nodes: map[string]*node{},
		controllers: make([]*Controller, controllers), serving: make([]*running, controllers), machines: machines,
	}
	for i := range controllers {
		c.peers[nameOf(i)] = free[controllers+i]
		c.dirs = append(c.dirs, memoryDir(t))
	}
	for i := range controllers {
		c.startController(i)
	}
	return c
}

// newClusterOn starts a controller on an etcd of its own, and three nodes.
func newClusterOn(t *testing.T, etcd *outside) *cluster {
	t.Helper()
	c := &cluster{
		t: t, settings: slack(), addresses: freeAddresses(t, 1), endpoints: []string{etcd.member.Client},
		nodes: map[string]*node{}, controllers: make([]*Controller, 1), serving: make([]*running, 1),
	}
	c.startController(0)
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	return c
}

// memoryDir is a directory in memory, if there is one: a disk that many tests share makes etcd wait for seconds.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "netcraq-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func nameOf(i int) string { return fmt.Sprintf("c%d", i+1) }

func (c *cluster) startController(i int) { c.startReplacement(i, false) }

// startReplacement starts a controller; joins: in the place of one that lost its data.
func (c *cluster) startReplacement(i int, joins bool) {
	c.t.Helper()
	var err error
	if c.controllers[i], err = c.newController(i, joins); err != nil {
		c.t.Fatal(err)
	}
	c.serving[i] = run(c.t, c.controllers[i].Serve)
}

// formed is the set that a controller is started with: the first ones, or with one that is added, all.
func (c *cluster) formed(i int) (s reconfig.ControllerSet) {
	for at, address := range c.addresses[:max(c.first, i+1)] {
		s.Members = append(s.Members, reconfig.Controller{Name: nameOf(at), Address: address, Peer: c.peers[nameOf(at)]})
	}
	return s
}

func (c *cluster) newController(i int, joins bool) (*Controller, error) {
	where := store.Options{Cluster: "test", Endpoints: c.endpoints, TTL: 10}
	if len(c.endpoints) == 0 {
		where.Embedded = &store.Embedded{Name: nameOf(i), Dir: c.dirs[i], Peers: maps.Clone(c.peers), Joins: joins}
	}
	return New(Options{
		Address: c.addresses[i], Log: logOf(nameOf(i)), Form: store.Formation{Settings: c.settings, Controllers: c.formed(i)},
		Store: where, Machines: c.machines,
	})
}

// startNode starts a node that has nothing, with an agent beside it.
func (c *cluster) startNode(name string) *node {
	c.t.Helper()
	return c.startNodeAt(name, netip.MustParseAddrPort("127.1.8.1:0"), map[string]string{"zone": name})
}

func (c *cluster) startNodeAt(name string, addr netip.AddrPort, labels map[string]string) *node {
	c.t.Helper()
	join := agent.Join{Controllers: c.addresses, Labels: labels, Capacity: 100, Identity: agent.NewIdentity(), Remember: c.remember}
	log := cmp.Or(c.log, logOf(name))
	id, err := join.Ask(c.soon(), name, addr.String(), "", log)
	if err != nil {
		c.t.Fatal(err)
	}
	join.Identity = id
	plane, err := soft.Listen(addr, chain.Options{Shards: id.Shards, CellBytes: id.CellBytes, MaxObjects: 100_000, MaxSessions: 10_000})
	if err != nil {
		c.t.Fatal(err)
	}
	a, err := agent.New(agent.Options{Name: name, Join: &join, Plane: plane, API: "127.1.8.1:0", Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{plane: plane}
	n.agent = run(c.t, a.Serve)
	n.serving = run(c.t, func(ctx context.Context) error {
		<-ctx.Done()
		n.agent.end()
		return plane.Close()
	})
	c.nodes[name] = n
	return n
}

func (c *cluster) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.t.Cleanup(cancel)
	return ctx
}

// leader waits until one of the controllers that run leads.
func (c *cluster) leader() int {
	c.t.Helper()
	at := -1
	c.eventually("a controller leads", func() bool {
		at = slices.IndexFunc(c.controllers, func(one *Controller) bool { return one != nil && one.term.Load() != nil })
		return at >= 0
	})
	return at
}

// stopController ends one, as if its machine had ended the process.
func (c *cluster) stopController(i int) {
	c.t.Helper()
	c.serving[i].end()
	c.controllers[i] = nil
}

// status asks the leader.
func (c *cluster) status() *controllerv1.StatusResponse {
	c.t.Helper()
	var out *controllerv1.StatusResponse
	c.eventually("a status", func() bool {
		leader := c.controllers[c.leader()]
		var err error
		out, err = leader.status(c.soon())
		return err == nil
	})
	return out
}

// fullyReplicated waits until all shards have chains of so many members.
func (c *cluster) fullyReplicated(members int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("all shards have %d members", members), func() bool {
		s := c.status()
		if s.GetShardsChanging()+s.GetShardsCopying() > 0 {
			return false
		}
		state := c.controllers[c.leader()].view.clone()
		return !slices.ContainsFunc(state.Shards, func(s reconfig.Shard) bool {
			return len(s.Members) != members || s.Learner != 0 || s.FrozenFor != 0
		})
	})
}

// eventually waits until a condition holds.
func (c *cluster) eventually(what string, condition func() bool) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// dial returns a client of one controller's API.
func (c *cluster) dial(i int) controllerv1.ControllerClient {
	c.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+c.addresses[i], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return controllerv1.NewControllerClient(conn)
}

// client returns a client of the data, which follows the map.
func (c *cluster) client() *client.Client {
	c.t.Helper()
	c.eventually("all controllers know the chains", func() bool { // the client asks any of them
		change := c.controllers[c.leader()].view.change()
		return !slices.ContainsFunc(c.controllers, func(one *Controller) bool { return one != nil && one.view.change() < change })
	})
	f, err := follow.Open(c.soon(), follow.Options{Addrs: c.addresses})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { f.Close() })
	one, err := client.New(client.Options{Follow: f, Timeout: patience})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { one.Close() })
	return one
}
