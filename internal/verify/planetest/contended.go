package planetest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// testContended checks that a head whose object stays dirty, as after a lost ACK, reports the key after CAS has been refused
// for ContendedAfter, and again while refusals continue. It reports no key without refusals.
func testContended(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	silent := netip.AddrPortFrom(n.Plane.Info().Addr.Addr(), n.Plane.Info().Addr.Port()+1)
	configure(t, n, chain.ShardConfig{Epoch: 1, State: chain.Active,
		Members: []netip.AddrPort{n.Plane.Info().Addr, silent}})
	wanted, other := keyOf("wanted"), keyOf("other")
	dirty := chain.Object{Version: 1, Value: wholeValue(1)}
	check(t, n.Plane.Import([]dataplane.KeyedObject{{Key: wanted, Object: dirty}, {Key: other, Object: dirty}}, nil))
	cas := wire.Message{Op: wire.OpCAS, Shard: shardOf(wanted), Epoch: 1, Key: wanted, Session: 1, Seq: 1, Operand: 1}
	first := time.Now()
	for times := range 3 {
		if told := refuse(t, n, &cas); told != wanted {
			t.Fatalf("told of %v, not of %v", told, wanted)
		}
		if elapsed := time.Since(first); elapsed < time.Duration(times+1)*dataplane.ContendedAfter*9/10 {
			t.Fatalf("told for the %d. time %v after the first refusal", times+1, elapsed)
		}
	}
}

// refuse sends a CAS that the node refuses, until the node reports a key.
func refuse(t *testing.T, n Node, cas *wire.Message) wire.Key {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		cas.Request++
		reply, answered, err := n.Ask(cas)
		check(t, err)
		if !answered || reply.Status() != wire.StatusBusy {
			t.Fatalf("a CAS of a dirty object: %v, %v", reply.Status(), answered)
		}
		select {
		case key := <-n.Plane.Contended():
			return key
		default:
		}
	}
	t.Fatal("the node reports no key")
	return wire.Key{}
}
