package harness

import (
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

var simulated = chain.Options{Shards: 4, CellBytes: 64, MaxObjects: 64, MaxSessions: 64}

// newNode makes a node that is the only member of all its shards' chains.
func newNode(t testing.TB, self netip.AddrPort) *XDP {
	roottest.Need(t)
	m, err := NewXDPAt(self)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if err := m.Reset(simulated); err != nil {
		t.Fatal(err)
	}
	startNode(t, m)
	return m
}

func startNode(t testing.TB, m *XDP) {
	t.Helper()
	if err := m.Clear(); err != nil {
		t.Fatal(err)
	}
	configs := make(map[uint16]chain.ShardConfig)
	for shard := range simulated.Shards {
		configs[uint16(shard)] = chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{m.Self()}}
	}
	if err := m.ConfigureAll(configs); err != nil {
		t.Fatal(err)
	}
}

func request(op wire.Op, key string, seq uint64) []byte {
	k, _ := wire.HashKey([]byte(key))
	m := wire.Message{Op: op, Epoch: 1, Shard: k.Shard(simulated.Shards), Key: k, Request: seq}
	if op != wire.OpRead {
		m.Session, m.Seq, m.Value = 1, seq, []byte("v")
	}
	return m.Append(nil)
}

// TestMachineClock expects a lease to end by the node's own clock, independent of the machine's
// time.
func TestMachineClock(t *testing.T) {
	m := newNode(t, conformance.Node(7))
	status := func(now uint64, op wire.Op, seq uint64) wire.Status {
		t.Helper()
		if err := m.SetClock(now); err != nil {
			t.Fatal(err)
		}
		out, err := m.Receive(conformance.Client(1), request(op, "k", seq), nil)
		var reply wire.Message
		if err != nil || len(out) != 1 || out[0].To != conformance.Client(1) || !wire.Peek(out[0].Message, &reply) {
			t.Fatalf("%v at %d: %v, %v", op, now, out, err)
		}
		return wire.Status(reply.Detail)
	}
	if got := status(0, wire.OpPut, 1); got != wire.StatusOk {
		t.Errorf("put: %v", got)
	}
	if err := m.Renew(1000); err != nil {
		t.Fatal(err)
	}
	for now, want := range map[uint64]wire.Status{0: wire.StatusOk, 999: wire.StatusOk, 1000: wire.StatusBusy,
		5000: wire.StatusBusy} {
		if got := status(now, wire.OpRead, 0); got != want {
			t.Errorf("read at %d: %v, want %v", now, got, want)
		}
	}
	startNode(t, m)
	if got := status(0, wire.OpRead, 0); got != wire.StatusBusy {
		t.Errorf("read after a reset: %v", got)
	}
}

// TestMachineOrder expects the tables of two nodes with the same history to be visited in the same
// order.
func TestMachineOrder(t *testing.T) {
	var orders [2][]wire.Key
	m := newNode(t, conformance.Me)
	for i := range orders {
		startNode(t, m)
		for seq := range uint64(40) {
			if _, err := m.Receive(conformance.Client(1), request(wire.OpPut, string(rune('a'+seq)), seq+1), nil); err != nil {
				t.Fatal(err)
			}
		}
		err := m.Export(dataplane.Everything([]uint16{0, 1, 2, 3}), func(k wire.Key, _ chain.Object) error {
			orders[i] = append(orders[i], k)
			return nil
		}, func(chain.SessionKey, chain.Session) error { return nil })
		if err != nil || len(orders[i]) != 40 {
			t.Fatalf("%d objects, %v", len(orders[i]), err)
		}
	}
	for i := range orders[0] {
		if orders[0][i] != orders[1][i] {
			t.Fatalf("object %d is %v, then %v", i, orders[0][i], orders[1][i])
		}
	}
}

func BenchmarkMachine(b *testing.B) {
	m := newNode(b, conformance.Me)
	b.Run("reset", func(b *testing.B) {
		for range b.N {
			startNode(b, m)
		}
	})
	b.Run("put", func(b *testing.B) {
		for i := range b.N {
			if _, err := m.Receive(conformance.Client(1), request(wire.OpPut, "k", uint64(i+1)), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
