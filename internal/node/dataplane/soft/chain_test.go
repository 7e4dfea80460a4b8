package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// patience is how long a test waits for what must come; attempt, before it asks again.
const (
	patience = 10 * time.Second
	attempt  = 200 * time.Millisecond
)

var testOptions = chain.Options{Shards: 4, CellBytes: 128, MaxObjects: 1000, MaxSessions: 1000}

// startChain runs n nodes on loopback that serve every shard as one chain, head first.
func startChain(t *testing.T, n int, o chain.Options) []*Plane {
	t.Helper()
	nodes := make([]*Plane, n)
	members := make([]netip.AddrPort, n)
	for i := range nodes {
		p, err := Listen(netip.MustParseAddrPort("127.1.0.1:0"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes[i], members[i] = p, p.Addr()
	}
	for i, p := range nodes {
		for shard := range uint16(o.Shards) {
			config := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: i, Members: members}
			if err := errors.Join(p.ConfigureAll(map[uint16]chain.ShardConfig{shard: config}), p.Grant(shard, dataplane.Forever)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return nodes
}

// testClient is a client in a test: one session, one request at a time.
type testClient struct {
	t       *testing.T
	socket  *net.UDPConn
	session uint64
	seq     uint64
	request uint64
	shards  int
}

func newTestClient(t *testing.T, session uint64) *testClient {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 1, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &testClient{t: t, socket: socket, session: session, shards: testOptions.Shards}
}

func (l *testClient) message(op wire.Op, key string, operand uint64, value string) wire.Message {
	hash, err := wire.HashKey([]byte(key))
	if err != nil {
		l.t.Fatal(err)
	}
	m := wire.Message{Op: op, Key: hash, Shard: hash.Shard(l.shards), Epoch: 1}
	if op.IsWrite() {
		l.seq++
		m.Session, m.Seq, m.Operand, m.Value = l.session, l.seq, operand, []byte(value)
	}
	return m
}

// ask sends a message until a reply to one of its attempts comes.
func (l *testClient) ask(to *Plane, m wire.Message) *wire.Message {
	l.t.Helper()
	first := l.request + 1
	for end := time.Now().Add(patience); time.Now().Before(end); {
		l.request++
		m.Request = l.request
		if _, err := l.socket.WriteToUDPAddrPort(m.Append(nil), to.Addr()); err != nil {
			l.t.Fatal(err)
		}
		if reply, ok := l.await(first); ok {
			return reply
		}
	}
	l.t.Fatalf("%v: no answer in %v", m.Op, patience)
	return nil
}

func (l *testClient) await(first uint64) (*wire.Message, bool) {
	l.t.Helper()
	if err := l.socket.SetReadDeadline(time.Now().Add(attempt)); err != nil {
		l.t.Fatal(err)
	}
	buffer := make([]byte, wire.MaxMessageBytes+1)
	for {
		n, err := l.socket.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, false
		}
		if err != nil {
			l.t.Fatal(err)
		}
		reply := new(wire.Message)
		if err := wire.DecodeReply(buffer[:n], reply); err != nil {
			l.t.Fatal(err)
		}
		if reply.Request >= first {
			return reply, true
		}
	}
}

func (l *testClient) expect(reply *wire.Message, status wire.Status, version uint64, value string) {
	l.t.Helper()
	if reply.Status() != status || reply.Version != version || string(reply.Value) != value {
		l.t.Fatalf("got %v version %d value %q, want %v version %d value %q",
			reply.Status(), reply.Version, reply.Value, status, version, value)
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

func counter(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }

// TestOperations: every operation through every node of chains of several lengths, then the read at every node.
func TestOperations(t *testing.T) {
	for _, relay := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			for entry := range n {
				t.Run(fmt.Sprintf("nodes %d entry %d relay %v", n, entry, relay), func(t *testing.T) {
					o := testOptions
					o.Relay = relay
					operate(t, startChain(t, n, o), entry)
				})
			}
		}
	}
}

func operate(t *testing.T, nodes []*Plane, entry int) {
	l, in := newTestClient(t, 7), nodes[entry]
	readAll := func(key string, status wire.Status, version uint64, value string) {
		t.Helper()
		for _, node := range nodes {
			l.expect(l.ask(node, l.message(wire.OpRead, key, 0, "")), status, version, value)
		}
	}
	write := func(op wire.Op, key string, operand uint64, value string) *wire.Message {
		t.Helper()
		m := l.message(op, key, operand, value)
		if op == wire.OpCAS || op == wire.OpAdd {
			return l.settled(in, m)
		}
		return l.ask(in, m)
	}
	readAll("a", wire.StatusNotFound, 0, "")
	l.expect(write(wire.OpPut, "a", 0, "one"), wire.StatusOk, 1, "")
	readAll("a", wire.StatusOk, 1, "one")
	l.expect(write(wire.OpCAS, "a", 1, "two"), wire.StatusOk, 2, "")
	readAll("a", wire.StatusOk, 2, "two")
	l.expect(write(wire.OpCAS, "a", 1, "three"), wire.StatusCASFailed, 2, "two")
	l.expect(write(wire.OpDelete, "a", 0, ""), wire.StatusOk, 3, "")
	readAll("a", wire.StatusNotFound, 3, "")
	l.expect(write(wire.OpAdd, "n", 40, ""), wire.StatusOk, 1, counter(40))
	l.expect(write(wire.OpAdd, "n", 2, ""), wire.StatusOk, 2, counter(42))
	readAll("n", wire.StatusOk, 2, counter(42))
	for i, node := range nodes {
		eventually(t, fmt.Sprintf("node %d clean", i), func() bool {
			dirty, err := node.Dirty(10)
			return err == nil && len(dirty) == 0
		})
	}
}

// settled asks again while the answer is BUSY: the ACK of the write before may still be under way.
func (l *testClient) settled(to *Plane, m wire.Message) *wire.Message {
	l.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if reply := l.ask(to, m); reply.Status() != wire.StatusBusy {
			return reply
		}
	}
	l.t.Fatalf("%v: busy for %v", m.Op, patience)
	return nil
}

// TestRetry (W2): a write that is asked again is answered again and not done again, even when a later one came between.
func TestRetry(t *testing.T) {
	nodes := startChain(t, 3, testOptions)
	l, other := newTestClient(t, 1), newTestClient(t, 2)
	add := l.message(wire.OpAdd, "n", 5, "")
	l.expect(l.ask(nodes[0], add), wire.StatusOk, 1, counter(5))
	l.expect(l.ask(nodes[1], add), wire.StatusOk, 1, counter(5))
	other.expect(other.settled(nodes[0], other.message(wire.OpAdd, "n", 1, "")), wire.StatusOk, 2, counter(6))
	l.expect(l.ask(nodes[2], add), wire.StatusOk, 1, counter(5))
	l.expect(l.ask(nodes[0], l.message(wire.OpRead, "n", 0, "")), wire.StatusOk, 2, counter(6))
}
