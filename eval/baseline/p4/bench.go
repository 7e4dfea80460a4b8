package p4

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/ether"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Names that p4c gives the parts that both programs have.
const (
	tableLocal  = "local"
	tableRoutes = "send_route_routes"
	actionVia   = "send_route_via_0"
	actionNode  = "node_1"
	regOutcomes = "outcomes_0"
)

// hosts is the number of nodes and of clients with a route: 10.88.0.1 and 10.88.1.1 and following.
const hosts = 20

// bench is a switch with a program and routes to all hosts. It gives the program one packet at a time.
type bench struct {
	sw      *p4.SWX
	entries []p4.Entry // of the state, without routes
}

func newBench(program []byte) (*bench, error) {
	sw, err := p4.StartSWX(program, p4.EngineMegabytes)
	if err != nil {
		return nil, err
	}
	b := &bench{sw: sw}
	var r p4.Request
	for i := range byte(hosts) {
		r.Insert(routeTo(netip.AddrFrom4([4]byte{10, 88, 0, 1 + i})))
		r.Insert(routeTo(netip.AddrFrom4([4]byte{10, 88, 1, 1 + i})))
	}
	if err := sw.Do(&r); err != nil {
		return nil, errors.Join(err, sw.Close())
	}
	return b, nil
}

func routeTo(host netip.Addr) p4.Entry {
	return p4.Entry{Table: tableRoutes, Match: []uint64{p4.Address(host)}, Action: actionVia, Args: []p4.Arg{
		{Name: "port", Value: 0},
		{Name: "source", Value: p4.MAC(ether.NodeMAC)}, {Name: "destination", Value: p4.MAC(ether.OtherMAC)},
	}}
}

// Name implements [baseline.Target].
func (b *bench) Name() string { return "the P4 program" }

// Close implements [baseline.Target].
func (b *bench) Close() error { return b.sw.Close() }

// replace replaces the entries of the state before, and sets registers. Entries of the same key may be in
// both states, so the removal takes effect first.
func (b *bench) replace(entries []p4.Entry, registers *p4.Request) error {
	var remove p4.Request
	for _, e := range b.entries {
		remove.Delete(e)
	}
	if err := b.sw.Do(&remove); err != nil {
		return err
	}
	b.entries = entries
	for _, e := range entries {
		registers.Insert(e)
	}
	return b.sw.Do(registers)
}

// Step implements [baseline.Target].
func (b *bench) Step(in baseline.Packet) ([]baseline.Packet, error) {
	left, err := b.sw.Try(0, ether.Frame(in))
	if err != nil {
		return nil, err
	}
	var sent []baseline.Packet
	for _, l := range left {
		b := l.Frame
		if l.Port == p4.PortCPU { // complete, but the program has no route for it: the control plane would send it
			b = b[p4.PlatformBytes:]
		}
		p, err := ether.Packet(b)
		if err != nil {
			return nil, err
		}
		sent = append(sent, p)
	}
	return sent, nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", baseline.ErrUnsupported, fmt.Sprintf(format, args...))
}
