package p4

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	programs "github.com/netcraq/netcraq/eval/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Place is where a node runs: interfaces of the calling thread's namespace, and the ways to all hosts.
type Place struct {
	Ports  []string
	Routes []p4.Route
}

// live is a program on network interfaces.
type live struct{ *p4.Bare }

func openLive(program []byte, addr netip.AddrPort, at Place, entries []p4.Entry) (live, error) {
	bare, err := p4.OpenBare(program, addr, at.Ports...)
	if err != nil {
		return live{}, err
	}
	n := live{bare}
	var r p4.Request
	for _, e := range entries {
		r.Insert(e)
	}
	err = n.Do(&r)
	if err == nil {
		err = n.ChangeRoutes(at.Routes, nil)
	}
	if err != nil {
		return live{}, errors.Join(err, n.Close())
	}
	return n, nil
}

// routePrefix begins the names of the control that chooses ports.
const routePrefix = "Node.send."

// ChangeRoutes gives ways to the switch, and takes others from it.
func (n live) ChangeRoutes(add, remove []p4.Route) error {
	var r p4.Request
	for i := range add {
		add[i].Insert(&r, routePrefix)
	}
	for i := range remove {
		remove[i].Delete(&r, routePrefix)
	}
	return n.Do(&r)
}

func (n live) counts(counts []uint64) error {
	var r p4.Request
	r.Read(regOutcomes, 0, counts)
	return n.Do(&r)
}

// NetChain is a switch of NetChain.
type NetChain struct {
	live
	config netchain.Config
	taken  int // places given to keys so far
}

// OpenNetChain starts a node without keys.
func OpenNetChain(c netchain.Config, at Place) (*NetChain, error) {
	if err := errors.Join(c.Validate(), chainFits(&c)); err != nil {
		return nil, err
	}
	n := &NetChain{config: c}
	var err error
	n.live, err = openLive(programs.NetChain, netip.AddrPortFrom(c.Self, netchain.Port), at,
		chainEntries(&netchain.State{Config: c}))
	return n, err
}

// Insert is the control plane's insert: it gives keys that have none places, with a number and with values.
func (n *NetChain) Insert(keys []netchain.Key, seq uint32, value func(netchain.Key) []byte) error {
	if left := n.config.Slots - n.taken; len(keys) > left {
		return fmt.Errorf("%d places are left for %d keys: make the arrays larger", left, len(keys))
	}
	var r p4.Request
	for i, key := range keys {
		writeCell(&r, n.taken+i, &netchain.Cell{Seq: seq, Value: value(key)})
		r.Insert(placeEntry(key, uint32(n.taken+i)))
	}
	n.taken += len(keys)
	return n.Do(&r)
}

// Counts returns the number of packets of each outcome.
func (n *NetChain) Counts() (counts [netchain.Outcomes]uint64, err error) {
	return counts, n.counts(counts[:])
}

// NetCRAQPaper is a switch of NetCRAQ as published.
type NetCRAQPaper struct {
	live
	config netcraqpaper.Config
}

// OpenNetCRAQPaper starts a node whose objects have no values.
func OpenNetCRAQPaper(c netcraqpaper.Config, at Place) (*NetCRAQPaper, error) {
	if err := errors.Join(c.Validate(), paperFits(&c)); err != nil {
		return nil, err
	}
	n := &NetCRAQPaper{config: c}
	var err error
	n.live, err = openLive(programs.NetCRAQPaper, netip.AddrPortFrom(c.Self, netcraqpaper.Port), at, paperEntries(&c))
	return n, err
}

// Install sets the values of all objects on behalf of the control plane, as if the chain had acknowledged them.
func (n *NetCRAQPaper) Install(value func(key uint32) netcraqpaper.Value) error {
	var r p4.Request
	for i := range int(n.config.Keys) {
		writeObject(&r, i, &netcraqpaper.Object{
			Cells: []netcraqpaper.Value{value(uint32(i))}, WriteIndex: 1,
		})
	}
	return n.Do(&r)
}

// Counts returns the number of packets of each outcome.
func (n *NetCRAQPaper) Counts() (counts [netcraqpaper.Outcomes]uint64, err error) {
	return counts, n.counts(counts[:])
}
