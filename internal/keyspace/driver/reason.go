package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// silentAfter is how long a gateway says nothing before people are told that its disk is awaited. It repeats its
// reports far more often.
const silentAfter = 3 * time.Second

// Reasons why a keyspace does not answer, with what to look at.
const (
	noRecord = "the controllers have not answered with the keyspace's record: see that this machine reaches them and " +
		"that a majority of them runs"
	lostLog = "the chain has lost or sealed the keyspace's log: a recovery follows; if all nodes of a shard have lost " +
		"their state, it waits for netcraq accept-loss"
	preparing = "a recovery prepares era %d: it takes a majority of the disks, the chain and the controllers; if all " +
		"nodes of a shard have lost their state, it waits for netcraq accept-loss"
	noState = "this gateway gets the state of era %d from the others"
	noChain = "the chain does not answer reads of the keyspace's log: see netcraq status"
	noDisks = "%d of the %d disks of era %d are heard, and %d are needed: start the gateways of %s; see netcraq " +
		"give-up-disks if they are lost"
	noAnswer = "the keyspace does not answer in time: its disks or its chain are slow"
)

// What a recovery of this gateway waits for.
const (
	recordAwaited = "the controllers do not store the keyspace's record: see that this machine reaches them and that a " +
		"majority of them runs"
	promisesAwaited = "%d more of the disks of era %d must answer: start the gateways of %s; see netcraq " +
		"give-up-disks if they are lost"
	contentAwaited = "the content of the disk of %s does not come: see that gateway's log"
	logAwaited     = "the chain does not answer for the log of era %d: see netcraq status; if all nodes of a shard have " +
		"lost their state, this waits for netcraq accept-loss"
	installsAwaited = "%d more disks must store the state with which era %d begins: see the logs of the gateways of %s"
	overtaken       = "another gateway has changed the keyspace's record or prepares a later era"
)

// awaits says what a recovery waits for.
func (d *Driver) awaits(w core.Awaited, record *core.Record) string {
	switch {
	case w.Record:
		return recordAwaited
	case len(w.Promises) > 0:
		return fmt.Sprintf(promisesAwaited, w.Need, record.Active.Number, d.names(w.Promises))
	case w.Content != core.Disk{}:
		return fmt.Sprintf(contentAwaited, d.names([]core.Disk{w.Content}))
	case w.Log > 0:
		return fmt.Sprintf(logAwaited, w.Log)
	case len(w.Installs) > 0:
		return fmt.Sprintf(installsAwaited, w.Need, record.Recovering, d.names(w.Installs))
	}
	return overtaken
}

// Reason says why the keyspace does not answer at this gateway, as far as the gateway knows.
func (d *Driver) Reason(ctx context.Context) error {
	reason := noAnswer
	if err := d.in(ctx, func() { reason = d.reason() }); err != nil {
		return err
	}
	return errors.New(reason)
}

func (d *Driver) reason() string {
	s := d.core.Status()
	era := s.Record.Active
	switch away := d.away(era); {
	case !d.known:
		return noRecord
	case away != "":
		return away
	case d.repair != nil:
		return d.repair.awaits()
	case s.Record.Recovering != 0 || era.Number == 0:
		return fmt.Sprintf(preparing, max(s.Record.Newest(), 1))
	case s.Broken:
		return lostLog
	case !s.Entered:
		return fmt.Sprintf(noState, era.Number)
	case time.Since(d.answered) > silentAfter:
		return noChain
	}
	return noAnswer
}

// Majority returns an error that says what to do if too few disks of the era are heard of for writes. Reads are
// answered until one begins.
func (d *Driver) Majority(ctx context.Context) error {
	var away string
	if err := d.in(ctx, func() { away = d.away(d.core.Status().Record.Active) }); err != nil || away == "" {
		return err
	}
	return errors.New(away)
}

// away says which disks of an era are missing for a majority; empty: none.
func (d *Driver) away(era core.Era) string {
	silent, all := d.silent(era.Set), len(era.Set)
	if len(silent) == 0 || len(silent) <= (all-1)/2 {
		return ""
	}
	return fmt.Sprintf(noDisks, all-len(silent), all, era.Number, all/2+1, d.names(silent))
}

// silent are the disks of a set that were not heard of for a while.
func (d *Driver) silent(set []core.Disk) (all []core.Disk) {
	for _, disk := range set {
		if disk != d.disk && time.Since(d.heard[disk]) >= silentAfter {
			all = append(all, disk)
		}
	}
	return all
}

// names lists the gateways of disks.
func (d *Driver) names(disks []core.Disk) string {
	var names []string
	for _, disk := range disks {
		i := slices.IndexFunc(d.state.Gateways, func(g Gateway) bool { return g.Disk.Name == disk.Name })
		switch {
		case i < 0:
			names = append(names, fmt.Sprintf("%x", disk.Name))
		case d.state.Gateways[i].Disk == disk:
			names = append(names, d.state.Gateways[i].Member)
		default:
			names = append(names, d.state.Gateways[i].Member+" (it has another disk now)")
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
