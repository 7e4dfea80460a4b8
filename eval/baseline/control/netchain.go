package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// Entry is a key with its value and state, as one node copies it to another.
type Entry struct {
	Key   netchain.Key
	Seq   uint32
	Value []byte
}

// NetChainSwitch is the control plane's interface to one NetChain node.
type NetChainSwitch interface {
	SetRule(netchain.Target, netchain.Rule) error
	// Export reads the registers of keys; keys that have no place are left out.
	Export([]netchain.Key) ([]Entry, error)
	Import([]Entry) error
}

// NetChain is the control plane of one chain.
type NetChain struct {
	Chain      []netip.Addr // head first
	Groups     int
	Keys       func(group uint16) []netchain.Key // that were inserted: places of keys are the control plane's business
	Switches   map[netip.Addr]NetChainSwitch
	Neighbours []NetChainSwitch // of every node: the hosts that forward its queries, including nodes of the chain
	PerSecond  float64          // entries copied a second; 0: as fast as it goes
}

// rules installs a rule for a group of queries to a node, everywhere but at the nodes that it names.
func (c *NetChain) rules(t netchain.Target, r netchain.Rule) error {
	var failed []error
	for _, at := range c.Neighbours {
		if at != c.Switches[t.To] && at != c.Switches[r.By] {
			failed = append(failed, at.SetRule(t, r))
		}
	}
	return errors.Join(failed...)
}

// Failover leads queries around a failed node.
func (c *NetChain) Failover(failed netip.Addr) error {
	for group := range c.Groups {
		if err := c.rules(netchain.Target{To: failed, Group: uint16(group)},
			netchain.Rule{Action: netchain.Skip}); err != nil {
			return fmt.Errorf("lead group %d around %v: %w", group, failed, err)
		}
	}
	return nil
}

// Recover puts a new node into a failed one's place, group by group. Moved is called when queries of
// a group go there; it may be nil.
func (c *NetChain) Recover(ctx context.Context, failed, by netip.Addr, moved func(group int)) error {
	from, err := c.source(failed)
	if err != nil {
		return err
	}
	p := newPace(c.PerSecond)
	for group := range c.Groups {
		t := netchain.Target{To: failed, Group: uint16(group)}
		if err := c.rules(t, netchain.Rule{Action: netchain.Block}); err != nil {
			return fmt.Errorf("stop group %d: %w", group, err)
		}
		if err := c.copyGroup(ctx, p, from, c.Switches[by], uint16(group)); err != nil {
			return fmt.Errorf("copy group %d: %w", group, err)
		}
		if err := c.rules(t, netchain.Rule{Action: netchain.Replace, By: by}); err != nil {
			return fmt.Errorf("move group %d: %w", group, err)
		}
		if moved != nil {
			moved(group)
		}
	}
	return nil
}

// source is the node that a new one copies from: the one after the failed one, whose writes it has
// all seen or never answered; of the tail the one before.
func (c *NetChain) source(failed netip.Addr) (NetChainSwitch, error) {
	place := slices.Index(c.Chain, failed)
	switch {
	case place < 0 || len(c.Chain) < 2:
		return nil, fmt.Errorf("%v is not one of several nodes of the chain", failed)
	case place == len(c.Chain)-1:
		return c.Switches[c.Chain[place-1]], nil
	}
	return c.Switches[c.Chain[place+1]], nil
}

func (c *NetChain) copyGroup(ctx context.Context, p *pace, from, to NetChainSwitch, group uint16) error {
	for some := range slices.Chunk(c.Keys(group), chunk) {
		entries, err := from.Export(some)
		if err != nil {
			return err
		}
		if err := to.Import(entries); err != nil {
			return err
		}
		if err := p.step(ctx, len(some)); err != nil {
			return err
		}
	}
	return nil
}
