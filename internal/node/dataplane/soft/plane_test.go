package soft

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

func TestListenErrors(t *testing.T) {
	taken := startChain(t, 1, testOptions)[0].Addr()
	for _, c := range []struct{ addr, want string }{
		{taken.String(), "another node: stop it, or choose another address with --addr"},
		{"0.0.0.0:0", "is no address for a node"},
		{"[::1]:0", "is no address for a node"},
		{"203.0.113.9:0", "not an address of this machine"},
	} {
		p, err := Listen(netip.MustParseAddrPort(c.addr), testOptions)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.addr, err, c.want)
		}
	}
	if _, err := Listen(netip.MustParseAddrPort("127.1.0.1:0"), chain.Options{}); err == nil {
		t.Error("a node without room was made")
	}
}

// TestLease: reads are answered while the lease lasts and not after; the clock is the plane's own.
func TestLease(t *testing.T) {
	node := startChain(t, 1, testOptions)[0]
	l := newTestClient(t, 1)
	l.expect(l.ask(node, l.message(wire.OpPut, "a", 0, "x")), wire.StatusOk, 1, "")
	read := l.message(wire.OpRead, "a", 0, "")
	for _, step := range []struct {
		lease time.Duration
		want  wire.Status
	}{{time.Hour, wire.StatusOk}, {0, wire.StatusBusy}, {-time.Second, wire.StatusBusy}, {time.Hour, wire.StatusOk}} {
		if err := node.Grant(read.Shard, step.lease); err != nil {
			t.Fatal(err)
		}
		if reply := l.ask(node, read); reply.Status() != step.want {
			t.Errorf("lease of %v: %v, want %v", step.lease, reply.Status(), step.want)
		}
	}
	if err := node.Grant(read.Shard, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease runs out", func() bool { return l.ask(node, read).Status() == wire.StatusBusy })
}

// TestBadInput: datagrams that are not for the node are counted by reason, also those that are too long.
func TestBadInput(t *testing.T) {
	node := startChain(t, 2, testOptions)[0]
	l := newTestClient(t, 1)
	valid := l.message(wire.OpRead, "a", 0, "")
	good := valid.Append(nil)
	stranger := wire.Message{Op: wire.OpAck, Epoch: 1, Shard: valid.Shard, Key: valid.Key, Version: 1}
	cases := []struct {
		datagram []byte
		want     chain.Counter
	}{
		{nil, chain.Counter{Outcome: wire.OutcomeTruncated}},
		{good[:39], chain.Counter{Outcome: wire.OutcomeTruncated}},
		{bytes.Repeat([]byte{1}, 64), chain.Counter{Outcome: wire.OutcomeBadMagic}},
		{append(bytes.Clone(good), make([]byte, 9000)...), chain.Counter{Outcome: wire.OutcomeTooLarge}},
		{append(bytes.Clone(good[:39]), good[39]^1), chain.Counter{Outcome: wire.OutcomeBadChecksum}},
		{stranger.Append(nil), chain.Counter{Op: wire.OpAck, Outcome: wire.OutcomeStranger}},
	}
	for _, c := range cases {
		if _, err := l.socket.WriteToUDPAddrPort(c.datagram, node.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cases {
		eventually(t, fmt.Sprintf("counted %v %v", c.want.Op, c.want.Outcome), func() bool {
			counters, err := node.Counters()
			return err == nil && counters[c.want] > 0
		})
	}
}

// TestTables: usage, walks over sessions that change meanwhile, and dropping them.
func TestTables(t *testing.T) {
	node := startChain(t, 1, testOptions)[0]
	const writers = 600 // more than two batches of a walk
	l := newTestClient(t, 0)
	for i := range writers {
		l.session, l.seq = uint64(i+1), 0
		l.expect(l.ask(node, l.message(wire.OpPut, fmt.Sprint("key ", i), 0, "v")), wire.StatusOk, 1, "")
	}
	usage, err := node.Usage()
	if err != nil || usage.Objects != writers || usage.Sessions != writers {
		t.Fatalf("usage is %+v, %v", usage, err)
	}
	if memory, err := node.Memory(); err != nil || memory < writers*100 {
		t.Fatalf("memory is %d, %v", memory, err)
	}
	visited := 0
	err = node.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		visited++
		if err := node.DropSession(k, s.Seq+1); err != nil {
			t.Error(err)
		}
		if k.Session%2 == 0 {
			if err := node.DropSession(k, s.Seq); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if err != nil || visited != writers {
		t.Fatalf("visited %d of %d, %v", visited, writers, err)
	}
	if usage, err = node.Usage(); err != nil || usage.Sessions != writers/2 {
		t.Fatalf("usage is %+v, %v", usage, err)
	}
	visited = 0
	_ = node.Sessions(func(chain.SessionKey, chain.Session) bool { visited++; return false })
	if visited != 1 {
		t.Fatalf("a walk that was stopped visited %d", visited)
	}
}

// TestDirty: the plane's own list of dirty objects is exactly those that are not clean.
func TestDirty(t *testing.T) {
	// The tail is a socket that never answers, so the head's objects stay dirty.
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 1, 0, 3)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	node := startChain(t, 1, testOptions)[0]
	tail := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{node.Addr(), tail}}
	for shard := range uint16(testOptions.Shards) {
		if err := node.ConfigureAll(map[uint16]chain.ShardConfig{shard: config}); err != nil {
			t.Fatal(err)
		}
	}
	l := newTestClient(t, 1)
	const keys = 10
	for i := range keys {
		m := l.message(wire.OpPut, fmt.Sprint(i), 0, "v")
		if _, err := l.socket.WriteToUDPAddrPort(m.Append(nil), node.Addr()); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, wire.MaxMessageBytes)
		n, err := silent.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		var update wire.Message
		if outcome := wire.Decode(buffer[:n], &update); outcome != wire.Accepted || update.Op != wire.OpUpdate {
			t.Fatalf("the tail got %v (%v)", update.Op, outcome)
		}
	}
	if dirty, err := node.Dirty(3); err != nil || len(dirty) != 3 {
		t.Fatalf("%d dirty objects, %v", len(dirty), err)
	}
	dirty, err := node.Dirty(100)
	if err != nil || len(dirty) != keys {
		t.Fatalf("%d dirty objects, %v", len(dirty), err)
	}
	for i, d := range dirty {
		ack := wire.Message{Op: wire.OpAck, Epoch: 1, Shard: d.Key.Shard(testOptions.Shards), Key: d.Key, Version: d.Object.Version}
		if _, err := silent.WriteToUDPAddrPort(ack.Append(nil), node.Addr()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the ACK is taken", func() bool {
			left, err := node.Dirty(100)
			return err == nil && len(left) == keys-1-i
		})
		if object, ok, err := node.Object(d.Key); err != nil || !ok || !object.Clean() {
			t.Fatalf("object is %+v, %v", object, err)
		}
	}
}

// TestConcurrent: many clients at once, each with its own counter and one shared; no increment is lost or done twice.
func TestConcurrent(t *testing.T) {
	nodes := startChain(t, 3, testOptions)
	const clients, increments = 8, 50
	var group sync.WaitGroup
	for c := range clients {
		l := newTestClient(t, uint64(c+1))
		group.Go(func() {
			for i := range increments {
				reply := l.settled(nodes[i%3], l.message(wire.OpAdd, "shared", 1, ""))
				if reply.Status() != wire.StatusOk {
					t.Errorf("client %d: %v", c, reply.Status())
				}
			}
		})
	}
	group.Wait()
	l := newTestClient(t, 99)
	for _, node := range nodes {
		l.expect(l.ask(node, l.message(wire.OpRead, "shared", 0, "")), wire.StatusOk, clients*increments, counter(clients*increments))
	}
}

func TestClosed(t *testing.T) {
	p, err := Listen(netip.MustParseAddrPort("127.1.0.1:0"), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Send(chain.Send{To: p.Addr(), Message: wire.Message{Op: wire.OpAck}}); err == nil {
		t.Error("a closed plane sent")
	}
	again, err := Listen(p.Addr(), testOptions)
	if err != nil {
		t.Fatal("the address is not free after Close: ", err)
	}
	again.Close()
}

// Messages that the socket refuses to send are counted under op 0, in addition to the outcome of the message.
func TestUnroutable(t *testing.T) {
	node := startChain(t, 1, testOptions)[0]
	l := newTestClient(t, 1)
	m := l.message(wire.OpPut, "a", 0, "x")
	config := chain.ShardConfig{Epoch: 2, State: chain.Active,
		Members: []netip.AddrPort{node.Addr(), netip.MustParseAddrPort("203.0.113.9:1")}}
	if err := node.ConfigureAll(map[uint16]chain.ShardConfig{m.Shard: config}); err != nil {
		t.Fatal(err)
	}
	m.Epoch = config.Epoch
	if _, err := l.socket.WriteToUDPAddrPort(m.Append(nil), node.Addr()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an UPDATE that no socket sends", func() bool {
		counters, err := node.Counters()
		return err == nil && counters[chain.Counter{Op: wire.OpPut, Outcome: wire.OutcomeOrdered}] == 1 &&
			counters[chain.Counter{Outcome: wire.OutcomeUnroutable}] == 1
	})
}
