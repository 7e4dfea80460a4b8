package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// watch follows the record.
func (d *Driver) watch() {
	for d.ctx.Err() == nil {
		err := d.o.Record.Watch(d.ctx, func(s State, version uint64) {
			d.beside(func() { d.post(func() { d.recorded(s, version) }) })
		})
		if d.ctx.Err() == nil {
			d.o.Logger.Debug("the keyspace's record cannot be watched", "error", err)
			retry.Sleep(d.ctx, retryAfter)
		}
	}
}

// recorded takes the record, or an earlier one.
func (d *Driver) recorded(s State, version uint64) {
	if d.known && version <= d.version {
		return
	}
	d.known, d.state, d.version = true, s, version
	d.due = time.Time{} // a recovery is left alone for a while
	d.core.Recorded(s.Record)
}

// with returns gateways with one of them changed.
func with(all []Gateway, g Gateway) []Gateway {
	all = slices.DeleteFunc(slices.Clone(all), func(o Gateway) bool { return o.Disk.Name == g.Disk.Name })
	all = append(all, g)
	slices.SortFunc(all, func(a, b Gateway) int { return cmp.Compare(a.Member, b.Member) })
	return all
}

func (d *Driver) self() Gateway { return Gateway{d.disk, d.o.Member, d.o.Address} }

// register writes this gateway with its disk into the record.
func (d *Driver) register() {
	if d.registering || d.paused("register") || slices.Contains(d.state.Gateways, d.self()) {
		return
	}
	d.registering = true
	s, version := d.state, d.version
	s.Gateways = with(s.Gateways, d.self())
	before := d.state.Gateways
	d.beside(func() {
		ctx, cancel := context.WithTimeout(d.ctx, callTimeout)
		defer cancel()
		if err := d.alone(ctx, before); err != nil {
			d.fail(err)
			return
		}
		now, swapped, err := d.o.Record.Swap(ctx, version, s)
		d.post(func() {
			d.registering = false
			switch {
			case swapped && err == nil:
				d.recorded(s, now)
			case err != nil:
				d.o.Logger.Debug("this gateway is not in the keyspace's record yet", "error", err)
				d.pause("register")
			default:
				d.reread()
			}
		})
	})
}

// alone refuses the name of another gateway that runs. Each would take the other's place in the record, and eras would
// end. A gateway whose disk was emptied has ended, or it is this one.
func (d *Driver) alone(ctx context.Context, gateways []Gateway) error {
	i := slices.IndexFunc(gateways, func(g Gateway) bool { return g.Disk.Name == d.disk.Name && g.Disk != d.disk })
	if i < 0 {
		return nil
	}
	g := gateways[i]
	asking, cancel := context.WithTimeout(ctx, callTimeout/2) // one that has ended may not refuse the connection
	defer cancel()
	if disk, _, err := d.o.Peers.Ask(asking, g, 0); err != nil || disk != g.Disk { // it promises nothing for era 0
		return nil //nolint:nilerr // nobody has the name
	}
	return fmt.Errorf("%w: another gateway runs at %s with the name %q, and a disk of its own: end it, or give this one "+
		"another name with --member", journal.ErrUsed, g.Address, d.o.Member)
}

// reread reads the record.
func (d *Driver) reread() {
	d.beside(func() {
		ctx, cancel := context.WithTimeout(d.ctx, callTimeout)
		defer cancel()
		if s, version, err := d.o.Record.Read(ctx); err == nil {
			d.post(func() { d.recorded(s, version) })
		}
	})
}

// tick does what is due.
func (d *Driver) tick() {
	if !d.known {
		return
	}
	d.register()
	d.mend()
}

// rank is the place of this gateway among all; -1: it is not registered. The first begins a recovery, and the next one
// if it does not. Those whose disks the recovery does not concern come last, but for the one that begins a keyspace with
// contents: clients wait for it.
func (d *Driver) rank(r core.Record) int {
	rank := slices.IndexFunc(d.state.Gateways, func(g Gateway) bool { return g.Disk == d.disk })
	if rank >= 0 && d.first == nil && !slices.Contains(r.Active.Set, d.disk) && !slices.Contains(r.Next, d.disk) {
		rank += 10
	}
	return rank
}

// alive reports whether a disk was heard of in a time.
func (d *Driver) alive(disk core.Disk) bool {
	last := d.heard[disk]
	if last.IsZero() {
		last = d.began
	}
	return disk == d.disk || time.Since(last) < d.o.ReplaceAfter
}

// Disks returns the set of the next era: as many as can be, of 1, 3 and 5. The disks of the present set stay, but a disk
// that is silent or gone is replaced if there is another one.
func Disks(now []core.Disk, gateways []Gateway, alive func(core.Disk) bool) []core.Disk {
	var set, silent []core.Disk
	for _, d := range now {
		switch is := slices.ContainsFunc(gateways, func(g Gateway) bool { return g.Disk == d }); {
		case is && alive(d):
			set = append(set, d)
		case is:
			silent = append(silent, d)
		}
	}
	for _, g := range gateways {
		if !slices.Contains(now, g.Disk) && alive(g.Disk) {
			set = append(set, g.Disk)
		}
	}
	set = append(set, silent...)
	switch n := len(set); {
	case n >= 5:
		return set[:5]
	case n >= 3:
		return set[:3]
	case n > 0 && len(now) < 3:
		return set[:1]
	}
	return set
}

const (
	// othersPatience is how many times longer a recovery of another gateway is left alone than a loss: making a log takes
	// a while.
	othersPatience = 10
	// mostPatience bounds how many times longer than the first one a recovery is left alone that follows others.
	mostPatience = 10
)

// patience is how many times RecoverAfter a gateway waits until it begins a recovery that is due. Each recovery in a
// row that began no era is followed by one that has more time: if the chain is slow, making a log takes longer than the
// gateways would wait for each other, and none would come to its end.
func patience(r *core.Record, rank int) time.Duration {
	n := 1 + rank
	if r.Recovering != 0 { // another gateway makes one, or has ended
		n *= othersPatience * int(min(r.Recovering-r.Active.Number, mostPatience))
	}
	return time.Duration(n)
}

// mend begins a recovery if one is due for long, and repeats or gives up the one that is under way.
func (d *Driver) mend() {
	if r := d.repair; r != nil {
		r.tick()
		return
	}
	s := d.core.Status()
	gateways := slices.DeleteFunc(slices.Clone(d.state.Gateways), func(g Gateway) bool {
		return slices.Contains(s.Record.Lost, g.Disk)
	})
	next := Disks(s.Record.Active.Set, gateways, d.alive)
	slices.SortFunc(next, func(a, b core.Disk) int { return cmp.Compare(a.Name, b.Name) })
	now := slices.Clone(s.Record.Active.Set)
	slices.SortFunc(now, func(a, b core.Disk) int { return cmp.Compare(a.Name, b.Name) })
	rank := d.rank(s.Record)
	due := s.Broken || s.Record.Recovering != 0 || len(s.Record.Lost) > 0 || !slices.Equal(next, now)
	if rank < 0 || len(next) == 0 || !due {
		d.due = time.Time{}
		return
	}
	if d.due.IsZero() {
		d.due = time.Now().Add(d.o.RecoverAfter * patience(&s.Record, rank))
	}
	receiving := time.Since(d.born)-time.Duration(d.touched.Load()) < d.o.RecoverAfter && d.touched.Load() > 0
	if !receiving && time.Now().After(d.due) {
		d.due = time.Time{}
		d.recover(next)
	}
}
