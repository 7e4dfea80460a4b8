package chain

import (
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// TestCheckInvariants breaks what holds of a node, one thing at a time.
func TestCheckInvariants(t *testing.T) {
	key, held := wire.Key{Lo: 1}, SessionKey{Session: 1}
	sound := Session{Seq: 1, Version: 1, Op: wire.OpPut}
	for what, break1 := range map[string]func(n *Node){
		"":                         func(*Node) {},
		"committed above version":  func(n *Node) { n.objects[key].Committed = 3 },
		"a clean epoch, and dirty": func(n *Node) { n.objects[key].Version = 3 },
		"a deleted value":          func(n *Node) { n.objects[key].Tombstone = true },
		"a long value":             func(n *Node) { n.objects[key].Value = make([]byte, 17) },
		"a session of a read":      func(n *Node) { n.sessions[held] = Session{Seq: 1, Version: 1, Op: wire.OpRead} },
		"a write without version":  func(n *Node) { n.sessions[held] = Session{Seq: 1, Op: wire.OpPut} },
		"a session without writes": func(n *Node) { n.sessions[held] = Session{Version: 1} },
		"an owner without entry":   func(n *Node) { delete(n.sessions, held) },
		"an entry counted twice":   func(n *Node) { n.holders[2].entries++ },
		"an entry not counted":     func(n *Node) { delete(n.owners, held) },
		"leases beyond the latest": func(n *Node) { n.renewed = 1 },
	} {
		n := New(Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: 4})
		n.PutObject(key, Object{Version: 2, Committed: 2, Epoch: 1, Value: []byte("v")})
		n.PutSession(held, sound)
		n.owners[held], n.holder(2).entries = 2, 1
		break1(n)
		if err := n.CheckInvariants(); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
