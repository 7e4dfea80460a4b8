package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

// NetCRAQPaperSwitch is the control plane's interface to one node of NetCRAQ as published.
type NetCRAQPaperSwitch interface {
	// Configure changes forwarding and the multicast group; objects stay.
	Configure(next, tail netip.Addr, group []netip.Addr) error
	// Newest are the newest values that the node has of objects, from a key on.
	Newest(from uint32, count int) ([]netcraqpaper.Value, error)
	// Install gives objects values, from a key on, as if they were acknowledged.
	Install(from uint32, values []netcraqpaper.Value) error
}

// NetCRAQPaper is the control plane of one chain.
type NetCRAQPaper struct {
	Chain     []netip.Addr // head first; changes with failures and recoveries
	Keys      uint32
	Switches  map[netip.Addr]NetCRAQPaperSwitch
	Disable   func(bool) error // writes in the whole chain
	PerSecond float64          // objects copied a second; 0: as fast as it goes
}

// Failover takes a failed node out of forwarding and multicast.
func (c *NetCRAQPaper) Failover(failed netip.Addr) error {
	place := slices.Index(c.Chain, failed)
	if place < 0 || len(c.Chain) < 2 {
		return fmt.Errorf("%v is not one of several nodes of the chain", failed)
	}
	c.Chain = slices.Delete(slices.Clone(c.Chain), place, place+1)
	return c.configure()
}

// configure tells every node of the chain its role.
func (c *NetCRAQPaper) configure() error {
	tail := len(c.Chain) - 1
	var failed []error
	for i, at := range c.Chain {
		var next netip.Addr
		var group []netip.Addr
		if i == tail {
			group = c.Chain[:tail]
		} else {
			next = c.Chain[i+1]
		}
		failed = append(failed, c.Switches[at].Configure(next, c.Chain[tail], group))
	}
	return errors.Join(failed...)
}

// Recover inserts a new node into the chain at a place. The node copies all objects from its
// predecessor, or from its successor if it becomes the head, while writes are disabled. Dirty
// objects become clean: the papers do not say how they could stay dirty.
func (c *NetCRAQPaper) Recover(ctx context.Context, by netip.Addr, place int) error {
	if place < 0 || place > len(c.Chain) {
		return fmt.Errorf("there is no place %d in a chain of %d", place, len(c.Chain))
	}
	if err := c.Disable(true); err != nil {
		return err
	}
	if err := c.fill(ctx, c.Switches[c.Chain[max(place-1, 0)]], c.Switches[by]); err != nil {
		return errors.Join(err, c.Disable(false))
	}
	c.Chain = slices.Insert(slices.Clone(c.Chain), place, by)
	return errors.Join(c.configure(), c.Disable(false))
}

func (c *NetCRAQPaper) fill(ctx context.Context, from, to NetCRAQPaperSwitch) error {
	p := newPace(c.PerSecond)
	for key := uint32(0); key < c.Keys; key += chunk {
		values, err := from.Newest(key, min(chunk, int(c.Keys-key)))
		if err != nil {
			return err
		}
		if err := to.Install(key, values); err != nil {
			return err
		}
		if err := p.step(ctx, len(values)); err != nil {
			return err
		}
	}
	return nil
}
