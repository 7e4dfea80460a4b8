package soft

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// bundleOf packs messages into a bundle with a slot for each.
func bundleOf(t *testing.T, messages ...wire.Message) wire.Bundle {
	t.Helper()
	b := wire.NewBundle(nil, len(messages), wire.SlotFor(wire.ChainBytes+8))
	for i, m := range messages {
		if !b.Put(i, &m) {
			t.Fatalf("no room for %+v", m)
		}
	}
	return b
}

// exchange sends a bundle and returns the one that comes back.
func (l *testClient) exchange(to *Plane, b wire.Bundle) wire.Bundle {
	l.t.Helper()
	if _, err := l.socket.WriteToUDPAddrPort(b, to.Addr()); err != nil {
		l.t.Fatal(err)
	}
	if err := l.socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		l.t.Fatal(err)
	}
	buffer := make([]byte, wire.MaxDatagramBytes)
	n, err := l.socket.Read(buffer)
	if err != nil {
		l.t.Fatal(err)
	}
	back := wire.Bundle(buffer[:n])
	if !wire.IsBundle(back) || !back.Sound() || back.Count() != b.Count() {
		l.t.Fatalf("%x came back", back)
	}
	return back
}

func (l *testClient) expectSlot(b wire.Bundle, i int, status wire.Status, version uint64, value string) {
	l.t.Helper()
	var m wire.Message
	encoded, _ := b.Message(i)
	if err := wire.DecodeReply(encoded, &m); err != nil {
		l.t.Fatalf("slot %d: %v", i, err)
	}
	l.expect(&m, status, version, value)
}

// TestBundle: writes go down a chain and come back up in one datagram, with their ACKs; then no node has a dirty
// object, and another bundle reads them at any node.
func TestBundle(t *testing.T) {
	nodes := startChain(t, 3, testOptions)
	l := newTestClient(t, 1)
	const writes = 8
	var puts, reads []wire.Message
	for i := range writes {
		l.session, l.seq = uint64(i+1), 0
		put := l.message(wire.OpPut, fmt.Sprint(i), 0, "12345678")
		puts = append(puts, put)
		read := wire.Message{Op: wire.OpRead, Shard: put.Shard, Epoch: put.Epoch, Key: put.Key}
		reads = append(reads, read)
	}
	b := l.exchange(nodes[0], bundleOf(t, puts...))
	for i := range writes {
		l.expectSlot(b, i, wire.StatusOk, 1, "")
	}
	for _, node := range nodes {
		if dirty, err := node.Dirty(writes); err != nil || len(dirty) != 0 {
			t.Errorf("%d objects are dirty, %v", len(dirty), err)
		}
		b := l.exchange(node, bundleOf(t, reads...))
		for i := range writes {
			l.expectSlot(b, i, wire.StatusOk, 1, "12345678")
		}
	}
}

// TestBundleLeavesObjectsDirty: the plane's list of dirty objects follows every slot.
func TestBundleLeavesObjectsDirty(t *testing.T) {
	node := startChain(t, 1, testOptions)[0]
	l := newTestClient(t, 1)
	silent := l.socket.LocalAddr().(*net.UDPAddr).AddrPort() // a tail that never answers
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{node.Addr(), silent}}
	for shard := range uint16(testOptions.Shards) {
		if err := node.ConfigureAll(map[uint16]chain.ShardConfig{shard: config}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := l.message(wire.OpPut, "a", 0, "v"), l.message(wire.OpPut, "b", 0, "v")
	b := bundleOf(t, first, second)
	if _, err := l.socket.WriteToUDPAddrPort(b, node.Addr()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both objects are dirty", func() bool {
		dirty, err := node.Dirty(3)
		return err == nil && len(dirty) == 2
	})
}

// TestBundleIsRefused: B1 where there are tags or rates.
func TestBundleIsRefused(t *testing.T) {
	tagged, limited := testOptions, testOptions
	tagged.Tags, limited.ClientRate = wire.TagsRequired, 1000
	for _, c := range []struct {
		options chain.Options
		want    chain.Counter
	}{
		{tagged, chain.Counter{Outcome: wire.OutcomeBadTag}},
		{limited, chain.Counter{Op: wire.OpBundle, Outcome: wire.OutcomeLimited}},
	} {
		node := startChain(t, 1, c.options)[0]
		l := newTestClient(t, 1)
		b := bundleOf(t, l.message(wire.OpRead, "a", 0, ""))
		if _, err := l.socket.WriteToUDPAddrPort(b, node.Addr()); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.want.Outcome.String(), func() bool {
			counters, err := node.Counters()
			return err == nil && len(counters) == 1 && counters[c.want] == 1
		})
	}
}
