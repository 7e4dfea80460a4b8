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
	era := &s.Record.Active
	switch awaited := d.awaited(era.Set); {
	case !d.known:
		return noRecord
	case len(awaited) > 0 && len(awaited) > (len(era.Set)-1)/2:
		all := len(era.Set)
		return fmt.Sprintf(noDisks, all-len(awaited), all, era.Number, all/2+1, strings.Join(awaited, ", "))
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

// awaited are the gateways of disks that were not heard of for a while.
func (d *Driver) awaited(set []core.Disk) (names []string) {
	for _, disk := range set {
		if disk == d.disk || time.Since(d.heard[disk]) < silentAfter {
			continue
		}
		name := fmt.Sprintf("%x", disk.Name)
		if i := slices.IndexFunc(d.state.Gateways, func(g Gateway) bool { return g.Disk == disk }); i >= 0 {
			name = d.state.Gateways[i].Member
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
