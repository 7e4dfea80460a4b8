package harness

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// guarded is the tail of a chain of two, as the target of forged messages.
type guarded struct {
	*XDP
	t *testing.T
}

var (
	guardedHead   = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, 3}), wire.Port)
	guardedClient = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, 9}), wire.Port)
	guardedEnds   = wire.Ends{From: guardedHead, To: conformance.Me}
)

// versionAt is where the version, with its mark, stands in a message.
const versionAt = 2

func newGuarded(t *testing.T, tags wire.Tags, rate int) guarded {
	t.Helper()
	roottest.Need(t)
	m, err := NewXDP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := m.Reset(chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8, Tags: tags,
		ClientRate: rate}); err != nil {
		t.Fatal(err)
	}
	if tags != wire.TagsOff {
		if err := m.SetKeys(conformance.TestKeys()); err != nil {
			t.Fatal(err)
		}
	}
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: 1,
		Members: []netip.AddrPort{guardedHead, conformance.Me}}
	if err := m.Load(conformance.State{Shards: map[uint16]conformance.Shard{0: {Config: config,
		Lease: dataplane.Forever}}}); err != nil {
		t.Fatal(err)
	}
	return guarded{m, t}
}

// send passes a datagram to the node and reports whether it had any effect.
func (g guarded) send(from netip.AddrPort, datagram []byte) bool {
	g.t.Helper()
	f := frame.Append(nil, &frame.Packet{
		SourceMAC: conformance.MACOf(from.Addr()), DestMAC: conformance.MACOf(conformance.Me.Addr()),
		From: from, To: conformance.Me, Message: datagram,
	})
	verdict, _, err := g.Step(f)
	if err != nil {
		g.t.Fatal(err)
	}
	return verdict == conformance.Sent
}

func (g guarded) state() conformance.State {
	g.t.Helper()
	s, err := g.State()
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// TestForgeriesChangeNothing checks T1 to T3: a message without a tag, with the tag of another key
// or generation, or changed in transit is counted and has no effect.
func TestForgeriesChangeNothing(t *testing.T) {
	g := newGuarded(t, wire.TagsRequired, 0)
	key := wire.Key{Lo: 2}
	update := wire.Message{
		Op: wire.OpUpdate, Epoch: 1, Key: key, Session: 1, Seq: 1, Version: 1, Client: guardedClient, ClientOp: wire.OpPut,
		Value: []byte("forged"),
	}
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: 1, Value: []byte("forged")}
	ack := wire.Message{Op: wire.OpAck, Epoch: 1, Key: key, Version: 1}
	reader := &wire.Keyring{Sign: 6, Keys: []wire.Keys{{Generation: 6}}}
	read := conformance.TestKeys().Keys[0].Read
	// This sender signs all messages with the key for reads.
	reader.Keys[0].Read, reader.Keys[0].Write, reader.Keys[0].Chain = read, read, read
	stranger := conformance.TestKeys()
	stranger.Sign, stranger.Keys[0].Generation = 5, 5
	forged := uint64(0)
	for _, m := range []wire.Message{update, put, ack} {
		tagged, err := conformance.TestKeys().Append(m.Append(nil), guardedEnds)
		if err != nil {
			t.Fatal(err)
		}
		marked := bytes.Clone(tagged[:wire.BaseBytes])
		message, _ := wire.Untag(tagged)
		message[len(message)-1] ^= 1 // with a corrected checksum, as an attacker would send it
		wire.Seal(message)
		tagged[versionAt] = marked[versionAt]
		datagrams := [][]byte{tagged, append(m.Append(nil), make([]byte, wire.TrailerBytes)...)}
		for _, ring := range []*wire.Keyring{reader, stranger} {
			d, err := ring.Append(m.Append(nil), guardedEnds)
			if err != nil {
				t.Fatal(err)
			}
			datagrams = append(datagrams, d)
		}
		for i, d := range datagrams {
			forged++
			if g.send(guardedHead, d) {
				t.Errorf("%v, forgery %d, is taken", m.Op, i)
			}
		}
	}
	s := g.state()
	if got := s.Counters[chain.Counter{Outcome: wire.OutcomeBadTag}]; got != forged || len(s.Objects) != 0 ||
		len(s.Sessions) != 0 {
		t.Errorf("%d of %d forgeries are counted; the node has %v and %v", got, forged, s.Objects, s.Sessions)
	}
	honest, err := conformance.TestKeys().Append(update.Append(nil), guardedEnds)
	if err != nil {
		t.Fatal(err)
	}
	if !g.send(guardedHead, honest) || len(g.state().Objects) != 1 {
		t.Error("the honest UPDATE is refused")
	}
	before := g.state().Objects[key]
	if !g.send(guardedHead, honest) { // a replay is answered again like any repeated UPDATE
		t.Error("the replayed UPDATE is refused")
	}
	if after := g.state().Objects[key]; after.Version != before.Version || after.Writes != before.Writes {
		t.Errorf("a replay changed %+v into %+v", before, after)
	}
}

// TestReplaysToOtherNodesChangeNothing checks T5: messages recorded on their way between two other nodes, or from a
// client to another node, or back to their sender, are refused.
func TestReplaysToOtherNodesChangeNothing(t *testing.T) {
	g := newGuarded(t, wire.TagsRequired, 0)
	other := conformance.Node(9)
	key := wire.Key{Lo: 2}
	update := wire.Message{
		Op: wire.OpUpdate, Epoch: 1, Key: key, Session: 1, Seq: 1, Version: 1,
		Client: guardedClient, ClientOp: wire.OpPut, Value: []byte("recorded"),
	}
	read := wire.Message{Op: wire.OpRead, Epoch: 1, Key: key}
	forward := wire.Message{Op: wire.OpForward, Epoch: 1, Key: key, Client: guardedClient, ClientOp: wire.OpRead}
	replays := []struct {
		message wire.Message
		from    netip.AddrPort // of the packet
		ends    wire.Ends      // of the tag
	}{
		{update, guardedHead, wire.Ends{From: guardedHead, To: other}},
		{update, guardedHead, wire.Ends{From: other, To: conformance.Me}},
		{update, guardedHead, wire.Ends{From: conformance.Me, To: guardedHead}},
		{forward, guardedHead, wire.Ends{From: guardedHead, To: other}},
		{read, guardedClient, wire.Ends{From: guardedClient, To: other}},
	}
	for i, r := range replays {
		tagged, err := conformance.TestKeys().Append(r.message.Append(nil), r.ends)
		if err != nil {
			t.Fatal(err)
		}
		if g.send(r.from, tagged) {
			t.Errorf("replay %d, %v, is taken", i, r.message.Op)
		}
	}
	s := g.state()
	if got := s.Counters[chain.Counter{Outcome: wire.OutcomeBadTag}]; int(got) != len(replays) || len(s.Objects) != 0 {
		t.Errorf("%d of %d replays are counted; the node has %v", got, len(replays), s.Objects)
	}
	moved, err := conformance.TestKeys().Append(read.Append(nil), wire.Ends{To: conformance.Me})
	if err != nil {
		t.Fatal(err)
	}
	if !g.send(guardedClient, moved) { // the client need not know the address at which the node sees it
		t.Error("an honest READ is refused")
	}
}

func TestClientsAreLimited(t *testing.T) {
	const rate, sent = 20, 200
	g := newGuarded(t, wire.TagsOff, rate)
	read := (&wire.Message{Op: wire.OpRead}).Append(nil)
	taken := 0
	start := dataplane.BootTime()
	for range sent {
		if g.send(guardedClient, read) {
			taken++
		}
	}
	seconds := float64(dataplane.BootTime()-start) / 1e9
	if most := rate*seconds + rate*wire.ClientBurstNs/1e9 + 1; taken == 0 || float64(taken) > most {
		t.Errorf("%d of %d messages in %.3f s are taken, at most %.1f may be", taken, sent, seconds, most)
	}
	if limited := g.state().Counters[chain.Counter{Op: wire.OpRead,
		Outcome: wire.OutcomeLimited}]; int(limited) != sent-taken {
		t.Errorf("%d are counted as limited, %d were dropped", limited, sent-taken)
	}
	if !g.send(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, 10}), wire.Port), read) {
		t.Error("another client pays for it")
	}
}
