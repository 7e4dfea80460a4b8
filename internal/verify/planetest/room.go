package planetest

import (
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// refused are the flags of a FULL for want of a session entry (W14).
const refused = wire.FlagNoValue | wire.FlagSession

// putIn asks for the first write of a session.
func putIn(t *testing.T, n Node, session uint64) *wire.Message {
	t.Helper()
	k := keyOf("room")
	reply, answered, err := n.Ask(&wire.Message{
		Op: wire.OpPut, Shard: shardOf(k), Epoch: 1, Key: k, Request: session, Session: session, Seq: 1, Value: wholeValue(session),
	})
	check(t, err)
	if !answered {
		t.Fatalf("no answer to the write of session %d", session)
	}
	return &reply
}

// testRoom (W14) fills the table of sessions, makes room again, and expects that no copy of a refused write finds it.
func testRoom(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	shard := shardOf(keyOf("room"))
	var sessions []dataplane.KeyedSession
	for i := range Options.MaxSessions {
		sessions = append(sessions, dataplane.KeyedSession{
			Key: chain.SessionKey{Session: uint64(1000 + i), Shard: shard}, Session: chain.Session{Seq: 1},
		})
	}
	check(t, n.Plane.Import(nil, sessions))
	for range 2 {
		if reply := putIn(t, n, 1); reply.Status() != wire.StatusFull || reply.Flags&refused != refused {
			t.Fatalf("a write without room for its session: %+v", reply)
		}
	}
	check(t, n.Plane.DropSession(sessions[0].Key, 1))
	if reply := putIn(t, n, 1); reply.Status() != wire.StatusBusy {
		t.Errorf("a copy of a refused write, when there is room: %+v", reply)
	}
	usage, err := n.Plane.Usage()
	check(t, err)
	if usage.Sessions != Options.MaxSessions-1 {
		t.Errorf("a write that was not recorded holds an entry: %+v", usage)
	}
	taken := uint64(2) // some session of another slot
	for ; putIn(t, n, taken).Status() == wire.StatusBusy; taken++ {
		if taken == wire.RefusedSlots {
			t.Fatal("one refused session keeps all others away")
		}
	}
	if reply := putIn(t, n, taken); reply.Status() != wire.StatusOk {
		t.Errorf("the retry of an accepted write: %+v", reply)
	}
}

// testShare (W14) has one client take all entries that it may, and give one back.
func testShare(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	shard := shardOf(keyOf("room"))
	first := uint64(1)
	for i := range uint64(Options.ClientSessions) {
		if reply := putIn(t, n, first+i); reply.Status() != wire.StatusOk {
			t.Fatalf("session %d of %d: %+v", i+1, Options.ClientSessions, reply)
		}
	}
	next := first + uint64(Options.ClientSessions)
	if reply := putIn(t, n, next); reply.Status() != wire.StatusFull || reply.Flags&refused != refused {
		t.Fatalf("one session too many: %+v", reply)
	}
	check(t, n.Plane.DropSession(chain.SessionKey{Session: first, Shard: shard}, 1))
	for next++; ; next++ {
		reply := putIn(t, n, next)
		if reply.Status() == wire.StatusOk {
			break
		}
		if reply.Status() != wire.StatusBusy || next > 1000 {
			t.Fatalf("after an entry was forgotten: %+v", reply)
		}
	}
	configure(t, n, chain.ShardConfig{State: chain.None})
	check(t, n.Plane.Drop(allShards()))
	alone(t, n)
	if reply := putIn(t, n, next+wire.RefusedSlots+1); reply.Status() != wire.StatusOk && reply.Status() != wire.StatusBusy {
		t.Errorf("after the shards were dropped: %+v", reply)
	}
}
