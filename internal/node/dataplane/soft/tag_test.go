package soft

import (
	"net"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// TestReplayToAnotherNode checks T5: the UPDATE for one replica, sent again to another one from the predecessor's
// address, changes nothing.
func TestReplayToAnotherNode(t *testing.T) {
	options := testOptions
	options.Tags = wire.TagsRequired
	node, err := Listen(netip.MustParseAddrPort("127.1.0.1:0"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	secret := new(wire.Secret)
	ring := &wire.Keyring{Sign: 1, Keys: []wire.Keys{{Generation: 1, Read: secret, Write: secret, Chain: secret}}}
	if err := node.SetKeys(ring); err != nil {
		t.Fatal(err)
	}
	l := newTestClient(t, 1) // the head of the chain
	head := l.socket.LocalAddr().(*net.UDPAddr).AddrPort()
	key, err := wire.HashKey([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	shard := key.Shard(options.Shards)
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: 1, Members: []netip.AddrPort{head, node.Addr()}}
	if err := node.ConfigureAll(map[uint16]chain.ShardConfig{shard: config}); err != nil {
		t.Fatal(err)
	}
	if err := node.Grant(shard, dataplane.Forever); err != nil {
		t.Fatal(err)
	}
	update := wire.Message{
		Op: wire.OpUpdate, Shard: shard, Epoch: 1, Key: key, Session: 1, Seq: 1, Version: 1,
		Client: head, ClientOp: wire.OpPut, Value: []byte("v"),
	}
	other := netip.AddrPortFrom(node.Addr().Addr(), node.Addr().Port()^1)
	for _, to := range []netip.AddrPort{other, node.Addr()} {
		tagged, err := ring.Append(update.Append(nil), wire.Ends{From: head, To: to})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.socket.WriteToUDPAddrPort(tagged, node.Addr()); err != nil {
			t.Fatal(err)
		}
		counted := chain.Counter{Outcome: wire.OutcomeBadTag}
		if to == node.Addr() {
			counted = chain.Counter{Op: wire.OpUpdate, Outcome: wire.OutcomeCommitted}
		}
		eventually(t, counted.Outcome.String(), func() bool {
			counters, err := node.Counters()
			return err == nil && counters[counted] == 1
		})
		if _, stored, err := node.Object(key); err != nil || stored != (to == node.Addr()) {
			t.Errorf("an UPDATE for %v at %v is stored: %v, %v", to, node.Addr(), stored, err)
		}
	}
}
