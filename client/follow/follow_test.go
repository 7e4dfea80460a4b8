package follow

import (
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// source is a server of maps.
type source struct {
	controllerv1.UnimplementedControllerServer
	addr   string
	server *grpc.Server

	mu      sync.Mutex
	newest  *controllerv1.MapResponse
	changed chan struct{} // closed by the next map
	calls   chan struct{} // an entry for every call, up to its capacity
}

// awaitCalls returns after n calls of Map, or when ctx ends.
func (s *source) awaitCalls(ctx context.Context, n int) {
	for range n {
		select {
		case <-s.calls:
		case <-ctx.Done():
		}
	}
}

func newSource(t *testing.T, first *controllerv1.MapResponse) *source {
	t.Helper()
	listener, err := net.Listen("tcp", "127.66.4.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &source{
		addr: listener.Addr().String(), server: grpc.NewServer(), newest: first,
		changed: make(chan struct{}), calls: make(chan struct{}, 100),
	}
	controllerv1.RegisterControllerServer(s.server, s)
	go s.server.Serve(listener)
	t.Cleanup(s.server.Stop)
	return s
}

func (s *source) Map(in *controllerv1.MapRequest, out grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	select {
	case s.calls <- struct{}{}:
	default:
	}
	known := in.GetKnown()
	for {
		s.mu.Lock()
		newest, changed := s.newest, s.changed
		s.mu.Unlock()
		if newest == nil {
			return status.Error(codes.Unavailable, "not formed yet")
		}
		if newest.GetVersion() > known {
			if err := out.Send(newest); err != nil {
				return err
			}
			known = newest.GetVersion()
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return nil
		}
	}
}

func (s *source) set(m *controllerv1.MapResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = m
	close(s.changed)
	s.changed = make(chan struct{})
}

// mapOf is a map of two shards on two nodes, with the given version.
func mapOf(version uint64, controllers ...string) *controllerv1.MapResponse {
	return &controllerv1.MapResponse{
		Version: version, Cluster: "c", Shards: 2, Controllers: controllers,
		Nodes: []*controllerv1.MapNode{
			{Id: 7, Name: "a", Addr: "127.66.4.2:1", Api: "127.66.4.2:1"},
			{Id: 3, Name: "b", Addr: "127.66.4.2:2", Api: "127.66.4.2:2"},
		},
		Chains: []*controllerv1.MapChain{
			{Epoch: uint32(version), Members: []uint32{3, 7}, Shards: shards(0)},
			{Epoch: 1, Members: []uint32{7}, Shards: shards(1)},
		},
	}
}

func shards(numbers ...uint16) (packed []byte) {
	for _, n := range numbers {
		packed = binary.BigEndian.AppendUint16(packed, n)
	}
	return packed
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, addrs ...string) *Follower {
	t.Helper()
	f, err := Open(soon(t), Options{Addrs: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// versions returns a channel with the versions of the maps that a watcher receives.
func versions(t *testing.T, f *Follower) chan uint64 {
	heard := make(chan uint64, 100)
	t.Cleanup(f.Watch(func(m *topology.Map) { heard <- m.Version }))
	return heard
}

func await(t *testing.T, heard chan uint64, want uint64) {
	t.Helper()
	for ctx := soon(t); ; {
		select {
		case got := <-heard:
			if got == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no map of version %d", want)
		}
	}
}

func TestMapsArePushed(t *testing.T) {
	s := newSource(t, mapOf(1))
	f := open(t, s.addr)
	m := f.Map()
	if m.Version != 1 || m.Cluster != "c" || m.Shards() != 2 || strings.Join(m.Names(m.Chain(0)), " ") != "b a" ||
		m.Chain(1).Epoch != 1 {
		t.Fatalf("%+v", m)
	}
	heard := versions(t, f)
	await(t, heard, 1)
	for version := uint64(2); version < 20; version++ {
		s.set(mapOf(version))
		await(t, heard, version)
	}
}

func TestAnotherSourceTakesOver(t *testing.T) {
	one, other := newSource(t, mapOf(1)), newSource(t, nil)
	f := open(t, one.addr, other.addr)
	heard := versions(t, f)
	other.set(mapOf(2))
	one.server.Stop()
	await(t, heard, 2)
}

// relay passes connections on to a server, until it is silent. Then it passes nothing on, and closes nothing.
type relay struct {
	addr   string
	silent atomic.Bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.66.4.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	r := &relay{addr: listener.Addr().String()}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { from.Close() })
			up, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			t.Cleanup(func() { up.Close() })
			go r.pass(from, up)
			go r.pass(up, from)
		}
	}()
	return r
}

func (r *relay) pass(from, to net.Conn) {
	buffer := make([]byte, 1<<12)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if r.silent.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// A source whose machine is gone, with no word of TCP, is left. It takes [silentAfter].
func TestSilentSourceIsLeft(t *testing.T) {
	t.Parallel()
	one, other := newSource(t, mapOf(1)), newSource(t, nil)
	way := newRelay(t, one.addr)
	f := open(t, way.addr, other.addr)
	heard := versions(t, f)
	await(t, heard, 1)
	way.silent.Store(true)
	other.set(mapOf(2))
	await(t, heard, 2)
}

// The controllers that the first map names are asked as well.
func TestSourcesAreLearnt(t *testing.T) {
	other := newSource(t, mapOf(2))
	one := newSource(t, mapOf(1, other.addr))
	f := open(t, one.addr)
	heard := versions(t, f)
	one.server.Stop()
	await(t, heard, 2)
}

// A source that is behind, and hears nothing new, does not keep a client waiting.
func TestAwaitLooksElsewhere(t *testing.T) {
	ahead := newSource(t, mapOf(2))
	behind := newSource(t, mapOf(1, ahead.addr))
	f := open(t, behind.addr)
	if err := f.Await(soon(t), func(m *topology.Map) bool { return m.Version == 2 }); err != nil {
		t.Error(err)
	}
}

// A source that hears nothing new itself is left for one that has.
func TestStale(t *testing.T) {
	one := newSource(t, mapOf(1))
	f := open(t, one.addr)
	heard := versions(t, f)
	other := newSource(t, mapOf(3))
	one.set(mapOf(2, one.addr, other.addr)) // its last news
	await(t, heard, 2)
	f.Stale(1) // of no interest any more
	f.Stale(2)
	await(t, heard, 3)
	other.set(mapOf(4))
	await(t, heard, 4)
}

func TestWrongMapsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*controllerv1.MapResponse){
		"unknown node":   func(m *controllerv1.MapResponse) { m.Chains[0].Members[0] = 9 },
		"node twice":     func(m *controllerv1.MapResponse) { m.Nodes[0].Id = 3 },
		"bad address":    func(m *controllerv1.MapResponse) { m.Nodes[0].Addr = "x" },
		"shard twice":    func(m *controllerv1.MapResponse) { m.Chains[1].Shards = shards(0) },
		"shard missing":  func(m *controllerv1.MapResponse) { m.Chains[1].Shards = nil },
		"shard too high": func(m *controllerv1.MapResponse) { m.Chains[1].Shards = shards(1, 2) },
		"half a shard":   func(m *controllerv1.MapResponse) { m.Chains[1].Shards = []byte{1} },
		"learner last":   func(m *controllerv1.MapResponse) { m.Chains[0].Learner = 7 },
		"three shards":   func(m *controllerv1.MapResponse) { m.Shards, m.Chains[1].Shards = 3, shards(1, 2) },
		"no epoch":       func(m *controllerv1.MapResponse) { m.Chains[0].Epoch = 0 },
	} {
		wrong := mapOf(5)
		change(wrong)
		if m, err := decode(wrong); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if _, err := decode(mapOf(5)); err != nil {
		t.Error(err)
	}
}

// A source of another cluster, as after a mistake with addresses, is not believed.
func TestOtherCluster(t *testing.T) {
	foreign := mapOf(5)
	foreign.Cluster = "d"
	one, other, third := newSource(t, mapOf(1)), newSource(t, foreign), newSource(t, nil)
	f := open(t, one.addr)
	heard := versions(t, f)
	one.set(mapOf(2, other.addr, third.addr))
	await(t, heard, 2)
	one.server.Stop()
	third.set(mapOf(3))
	await(t, heard, 3)
	ctx := soon(t)
	if _, err := Open(ctx, Options{Addrs: []string{other.addr}, Cluster: "c"}); err == nil ||
		!strings.Contains(err.Error(), `cluster "d"`) {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("it tried on")
	}
}

// deadlineContext reports its end as that of a deadline.
type deadlineContext struct{ context.Context }

func (c deadlineContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

func TestNobodyAnswers(t *testing.T) {
	s := newSource(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	go func() { // both addresses have failed once when the second attempt reaches the source
		s.awaitCalls(ctx, 2)
		cancel()
	}()
	_, err := Open(deadlineContext{ctx}, Options{Addrs: []string{"127.66.4.3:1", s.addr}})
	if err == nil || !strings.Contains(err.Error(), "not formed yet") || !strings.Contains(err.Error(), "127.66.4.3:1") {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{}); err == nil {
		t.Fatal("a follower of nobody")
	}
}

// Addresses are given as on the command line, and one that is none is an error at once.
func TestAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.66.4.9", strconv.Itoa(topology.ControllerPort)))
	if err != nil {
		t.Fatal(err)
	}
	s := &source{server: grpc.NewServer(), newest: mapOf(1), changed: make(chan struct{})}
	controllerv1.RegisterControllerServer(s.server, s)
	go s.server.Serve(listener)
	t.Cleanup(s.server.Stop)
	if m := open(t, "127.66.4.9").Map(); m.Version != 1 {
		t.Errorf("%+v", m)
	}
	ctx := soon(t)
	for _, wrong := range []string{"", ":4413", "127.66.4.9:port", "127.66.4.9:0", "a,b", "http://127.66.4.9"} {
		if _, err := Open(ctx, Options{Addrs: []string{wrong}}); err == nil ||
			!strings.Contains(err.Error(), "not a host and port") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("it tried on")
	}
}
