package controller

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

const (
	// lookEvery is the interval at which the notes are renewed.
	lookEvery = time.Second
	// fullAt is how full, in percent, a table may be before it is remarked on.
	fullAt = 90
	// jumpAt is how far wall clock and monotonic clock may part in lookEvery.
	jumpAt = 500 * time.Millisecond
	// slowShown is how long a change that took too long is remarked on.
	slowShown = time.Minute
	// jumpShown is how long a jump is remarked on.
	jumpShown = 10 * time.Minute
)

// slowness is how long it took to store a change.
type slowness struct{ took, at time.Duration }

// notes are messages for operators besides those of the leader, the most urgent first.
func (c *Controller) notes(s *reconfig.State) []string {
	var notes []string
	if trouble := c.store.Trouble(); trouble != "" {
		notes = append(notes, trouble+"; the last good state stays in force and leases go on, but nothing can be changed until this is mended")
	}
	if slow := c.slow.Load(); slow != nil && c.now()-slow.at < slowShown {
		notes = append(notes, fmt.Sprintf("etcd took %v to store a change: writes stop for as long when a node fails; give it a disk of its own",
			slow.took.Round(time.Millisecond)))
	}
	set := c.view.controllers()
	for _, address := range set.Addresses() {
		if p := c.peers.get(address); p != nil && !p.reachable() {
			notes = append(notes, fmt.Sprintf("controller %s cannot be reached", address))
		}
	}
	if cordons := c.cordons.Load(); cordons != nil {
		notes = append(notes, *cordons...)
	}
	if joining := set.Joining; joining.Address != "" {
		notes = append(notes, fmt.Sprintf("controller %s joins at %s, and is not one of the cluster's yet", joining.Name, joining.Address))
	}
	c.loading.Lock()
	for _, n := range sortedNodes(s) {
		if _, last, ok := c.loads.Node(c.now(), n.ID); ok {
			notes = append(notes, fullness(n.Name, "objects", last.Objects, last.MaxObjects)...)
			notes = append(notes, fullness(n.Name, "sessions", last.Sessions, last.MaxSession)...)
		}
	}
	c.loading.Unlock()
	if at := c.jumped.Load(); at != 0 && c.now()-time.Duration(at) < jumpShown {
		notes = append(notes, "this controller's clock was set: leases do not depend on it, but look after its time service")
	}
	return notes
}

func fullness(node, what string, used, most uint64) []string {
	if most == 0 || 100*used < fullAt*most {
		return nil
	}
	return []string{fmt.Sprintf("node %s has room for %d %s and stores %d: add a node, or start this one with more room",
		node, most, what, used)}
}

// look logs each note once when it comes up, and watches the clock.
func (c *Controller) look(ctx context.Context) error {
	known := make(map[string]bool)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	apart := wallAhead()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if now := wallAhead(); (now - apart).Abs() > jumpAt {
			c.log.Warn("the clock was set", "by", now-apart)
			c.jumped.Store(int64(c.now()))
			apart = now
		}
		term := c.term.Load()
		if term == nil {
			continue
		}
		out, err := c.status(ctx)
		if err != nil {
			continue
		}
		c.metrics.cluster(term, out)
		current := make(map[string]bool)
		for _, note := range out.GetNotes() {
			if current[note] = true; !known[note] {
				c.log.Warn(note)
			}
		}
		known = current
	}
}

// wallAhead returns the difference between the wall clock and the clock that cannot be set.
func wallAhead() time.Duration {
	var wall, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(wall.Nano() - boot.Nano())
}
