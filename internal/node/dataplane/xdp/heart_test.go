package xdp

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// TestGrantsOfAnotherSet: while several CPUs take grants of one set of controllers, the agent tells the plane another set.
// From then on no grant of the first set is stored among those of the second, whose controllers have other places.
func TestGrantsOfAnotherSet(t *testing.T) {
	const rounds, looks, threads = 3000, 20, 3
	l := newLone(t, chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: 4})
	one := chain.Heart{Key: wire.Secret{1}, Node: 1, SetID: 1, Incarnation: 1}
	other := one
	other.SetID++
	grant := wire.Heartbeat{Granter: 2, Majority: 2, Node: 1, SetID: 1, Incarnation: 1, Stamp: 1, Lease: 1 << 40}
	p := frame.Packet{From: at(9), To: conformance.Me, Message: grant.Append(nil, &one.Key)}
	datagram := frame.Append(nil, &p)
	var over atomic.Bool
	taken := 0
	inParallel(t, threads+1, func(thread int) error {
		if thread < threads {
			for !over.Load() {
				run := ebpf.RunOptions{Data: datagram, DataOut: make([]byte, maxFrame)}
				if _, err := l.objects.Ingress.Run(&run); err != nil {
					return err
				}
			}
			return nil
		}
		defer over.Store(true)
		for round := range rounds {
			if err := l.objects.setHeart(one, visitCPUs); err != nil {
				return err
			}
			if granted, err := l.objects.granted(); err != nil || granted.Ends != (chain.Granted{}).Ends {
				taken++
			}
			if err := l.objects.setHeart(other, visitCPUs); err != nil {
				return err
			}
			for range looks {
				granted, err := l.objects.granted()
				if err != nil {
					return err
				}
				if granted.Ends != (chain.Granted{}).Ends || granted.Until != 0 {
					return fmt.Errorf("round %d: %+v, of which the present set granted nothing", round, granted)
				}
			}
		}
		return nil
	})
	if taken == 0 {
		t.Error("no grant was taken")
	}
}
