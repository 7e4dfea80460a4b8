package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/wire"
)

// patience bounds each wait of a test.
const patience = 10 * time.Second

const shards = 4

var testOptions = chain.Options{Shards: shards, CellBytes: 64, MaxObjects: 1000, MaxSessions: 1000}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func listen(t *testing.T) *soft.Plane {
	t.Helper()
	plane, err := soft.Listen(netip.MustParseAddrPort("127.1.1.1:0"), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plane.Close() })
	return plane
}

// clusterOf is a cluster in which all shards are served by these addresses, named a, b, c.
func clusterOf(addrs ...netip.AddrPort) *topology.Cluster {
	c := &topology.Cluster{Epoch: 1, Shards: shards, Chains: [][]string{nil}}
	for i, addr := range addrs {
		name := string(rune('a' + i))
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: addr})
		c.Chains[0] = append(c.Chains[0], name)
	}
	return c
}

// start runs an agent and returns a client of its API.
func start(t *testing.T, o Options) agentv1.AgentClient {
	t.Helper()
	return startAt(t, "127.1.1.1:0", o)
}

func startAt(t *testing.T, api string, o Options) agentv1.AgentClient {
	t.Helper()
	o.API, o.Log = api, quiet
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	client, conn, err := Dial(a.API())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client
}

// configured makes an agent that does not serve, and configures its plane as if the other nodes had answered.
func configured(t *testing.T, o Options) *Agent {
	t.Helper()
	o.Log = quiet
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.begin(o.Cluster); err != nil {
		t.Fatal(err)
	}
	return a
}

// serving waits until the planes of a static cluster are configured.
func serving(t *testing.T, planes ...*soft.Plane) {
	t.Helper()
	for _, plane := range planes {
		eventually(t, "the node serves", func() bool {
			config, err := plane.Config(0)
			return err == nil && config.State == chain.Active
		})
	}
}

// serve lets an agent serve until the test ends.
func serve(t *testing.T, a *Agent) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// tail is a socket in a node's place: the test plays the tail.
type tail struct {
	t      *testing.T
	socket *net.UDPConn
}

func newTail(t *testing.T) *tail {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 1, 1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &tail{t, socket}
}

func (l *tail) addr() netip.AddrPort { return l.socket.LocalAddr().(*net.UDPAddr).AddrPort() }

func (l *tail) send(to netip.AddrPort, m wire.Message) {
	l.t.Helper()
	if _, err := l.socket.WriteToUDPAddrPort(m.Append(nil), to); err != nil {
		l.t.Fatal(err)
	}
}

// receive returns the next message within a time, or false.
func (l *tail) receive(within time.Duration) (*wire.Message, bool) {
	l.t.Helper()
	if err := l.socket.SetReadDeadline(time.Now().Add(within)); err != nil {
		l.t.Fatal(err)
	}
	buffer := make([]byte, wire.MaxMessageBytes)
	n, err := l.socket.Read(buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, false
	}
	m := new(wire.Message)
	if err != nil || !wire.Peek(buffer[:n], m) {
		l.t.Fatalf("%d bytes, %v", n, err)
	}
	return m, true
}

func hash(t *testing.T, key string) wire.Key {
	t.Helper()
	k, err := wire.HashKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func put(t *testing.T, key, value string, session, seq uint64) wire.Message {
	k := hash(t, key)
	return wire.Message{
		Op: wire.OpPut, Shard: k.Shard(shards), Epoch: 1, Key: k, Request: seq, Session: session, Seq: seq, Value: []byte(value),
	}
}

// eventually waits for a condition that packets under way will make true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func object(t *testing.T, plane *soft.Plane, key string) (chain.Object, bool) {
	t.Helper()
	o, ok, err := plane.Object(hash(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return o, ok
}

// newTCP returns an address that is taken.
func newTCP(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.1.1.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// newPort returns an address that is free.
func newPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.1.1.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
