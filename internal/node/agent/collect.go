package agent

import (
	"context"
	"errors"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	// collectEvery is the time between two looks for tombstones.
	collectEvery = time.Second
	// collectSoon is the same while a floor rises, or the table is more than half full.
	collectSoon = 20 * time.Millisecond
	// collectCalm is the time until the next check whether that is so, while the number of objects stays the same. An
	// order, which alone makes a floor rise, is followed by a check at once.
	collectCalm = 10 * collectSoon
	// quietSweeps is how many looks without a change make the next one needless. One is not enough, as for quietLooks.
	quietSweeps = 2
)

// collector looks for tombstones again and again, and tells the controllers.
type collector struct {
	*membership
	sweeper *reconfig.Sweeper
	changes uint64         // that packets made, at the last look
	quiet   int            // looks since they grew
	looked  time.Time      // when the last look was
	last    reconfig.Sweep // the last report
	objects int            // in the table, at the last check
	calm    bool           // nothing has to be collected soon
}

func newCollector(m *membership) *collector {
	return &collector{membership: m, sweeper: reconfig.NewSweeper(m.plane.Info().Options.Shards)}
}

// collect collects tombstones (G4).
func (m *membership) collect(ctx context.Context) {
	c := newCollector(m)
	report := reporter{log: m.log, what: "cannot collect tombstones"}
	periodicallyOr(ctx, m.applied, collectSoon, func() time.Duration {
		began := time.Now()
		err := c.lookIfDue()
		if errors.Is(err, dataplane.ErrNoFloors) {
			<-ctx.Done() // a chain with this node gets no floors
		}
		report.result(err)
		if c.calm {
			return collectCalm
		}
		return max(collectSoon, lookPause*time.Since(began))
	})
}

// lookIfDue looks for tombstones if it is time, and no copy is urgent: both use much of the CPU, and copies end soon.
func (c *collector) lookIfDue() error {
	c.calm = false
	if c.urgent.Load() > 0 {
		return nil
	}
	rising, err := c.rising()
	if err != nil {
		return err
	}
	usage, err := c.plane.Usage()
	if err != nil {
		return err
	}
	objects := c.objects
	c.objects = usage.Objects
	full := 2*usage.Objects > c.plane.Info().Options.MaxObjects
	c.calm = !rising && !full && c.objects == objects
	if !rising && !full && time.Since(c.looked) < collectEvery {
		return nil
	}
	c.looked = time.Now()
	return c.look(rising)
}

// look collects tombstones and reports those that remain. If nothing changed it only repeats the report: there may be
// another leader.
func (c *collector) look(rising bool) error {
	idle, err := c.idle()
	if err != nil {
		return err
	}
	if !idle || rising {
		if c.last.Shards, err = c.sweeper.Sweep(c.plane); err != nil {
			return err
		}
		usage, err := c.plane.Usage()
		if err != nil {
			return err
		}
		c.last.Pressing = pressing(usage.Objects, c.plane.Info().Options.MaxObjects, c.last.Shards)
	}
	c.report()
	return nil
}

func (c *collector) report() {
	c.tell(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Sweep{Sweep: message.FromSweep(&c.last)}})
}

// pressing reports whether collecting tombstones would give back a good part of the room that is left.
func pressing(objects, most int, shards []reconfig.Tombstones) bool {
	tombstones := uint64(0)
	for _, t := range shards {
		tombstones += t.Count
	}
	return 2*objects > most && 8*tombstones > uint64(max(0, most-objects))
}

// rising reports whether the floor of a shard is above its bar: the bar will follow, and then there is something to
// collect.
func (c *collector) rising() (bool, error) {
	for shard := range uint16(c.plane.Info().Options.Shards) {
		config, err := c.plane.Config(shard)
		if err != nil || config.Floor > config.Bar {
			return err == nil, err
		}
	}
	return false, nil
}

// idle reports that packets can have changed nothing since the last look but one.
func (c *collector) idle() (bool, error) {
	counters, err := c.plane.Counters()
	if err != nil {
		return false, err
	}
	changes := uint64(0)
	for counter, n := range counters {
		switch counter.Outcome {
		case wire.OutcomeOrdered, wire.OutcomeApplied, wire.OutcomeCommitted, wire.OutcomeAcked:
			changes += n
		}
	}
	if changes != c.changes {
		c.changes, c.quiet = changes, 0
		return false, nil
	}
	c.quiet++
	return c.quiet > quietSweeps, nil
}
