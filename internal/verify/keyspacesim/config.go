package keyspacesim

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// Config describes a simulated run. Equal configurations give equal runs.
type Config struct {
	Seed     uint64
	Gateways int
	SetSize  int // of the disks that count
	Clients  int
	Ops      int // of each client
	Shards   int
	Ring     int // entries of a log
	Ahead    int // entries that a writer writes before the first one of them counts

	Latency, Jitter time.Duration
	Loss            float64       // of messages between gateways
	Late            float64       // of all messages
	SyncTime        time.Duration // mean, of a disk
	Think           time.Duration // mean pause of a client
	Poll            time.Duration // between two looks of a gateway at the log
	Elect           time.Duration // mean time between two elections of a writer
	Every           time.Duration // mean time between two faults
	Lasts           time.Duration // the longest time that a fault lasts
	Repair          time.Duration // mean time until a gateway begins a recovery that is due
	Patience        time.Duration // for a recovery, and for a call of the chain

	// GiveUp is the mean time between two losses of a majority of the disks, which an operator gives up then; 0: never.
	GiveUp time.Duration

	Severe  bool   // a gateway that does not reach the record hears nothing of the others for a part of the time
	Several bool   // such a fault, or the loss of a disk, strikes another gateway too
	Fresh   bool   // clients write to gateways of the newest era only
	Quiet   uint32 // kinds of faults that do not happen, as bits
	Without core.Rule
}

// Fault is a kind of fault.
type Fault int

// The kinds of faults.
const (
	Crash     Fault = iota // kill -9 of a gateway; its disk keeps what was written
	CrashAll               // of all gateways at once
	Power                  // of one machine: what its disk has not synced is lost, to some entry
	PowerAll               // of all machines and of the whole chain
	Pause                  // a gateway does nothing for a while
	Cut                    // a gateway hears nothing of the others
	CutRecord              // a gateway does not reach the record
	SlowSync               // a disk syncs slowly
	LoseDisk               // a gateway starts again with an empty disk
	LoseShard              // a shard of the chain loses its state
	LoseChain              // all shards do
	ShardAway              // a shard does not answer for a while
	NewSet                 // a gateway begins a recovery with another set of disks
	Compete                // some gateways begin recoveries at once
	LostMessage
	LateMessage
	faults
)

func (f Fault) String() string {
	return [...]string{
		"crash", "crash-all", "power", "power-all", "pause", "cut", "cut-record", "slow-sync", "lost-disk", "lost-shard",
		"lost-chain", "shard-away", "new-set", "compete", "loss", "late",
	}[f]
}

// AllFaults lists the kinds of faults.
func AllFaults() iter.Seq[Fault] { return seeded.AllFaults(faults) }

// Draw makes a world from a seed.
func Draw(seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 1))
	between := func(least, most int) int { return least + rng.IntN(most-least+1) }
	often := func(most float64) float64 { return max(0, rng.Float64()*1.5-0.5) * most } // never, one time in three
	c := Config{
		Seed: seed, Gateways: between(3, 5), SetSize: 3, Clients: between(2, 5), Ops: between(15, 50),
		Shards: between(1, 4), Ring: between(8, 48), Ahead: between(1, 6),
		Latency: time.Duration(between(20, 200)) * time.Microsecond,
		Loss:    often(0.05), Late: often(0.05),
		SyncTime: time.Duration(between(100, 3000)) * time.Microsecond,
		Think:    time.Duration(between(200, 3000)) * time.Microsecond,
		Poll:     time.Duration(between(1000, 6000)) * time.Microsecond,
		Elect:    time.Duration(between(20, 100)) * time.Millisecond,
		Every:    time.Duration(between(10, 60)) * time.Millisecond,
		Repair:   time.Duration(between(3, 20)) * time.Millisecond,
		Patience: time.Duration(between(10, 30)) * time.Millisecond,
		Lasts:    time.Duration(between(10, 120)) * time.Millisecond,
	}
	if c.Gateways == 5 && rng.IntN(2) == 0 {
		c.SetSize = 5
	}
	c.Jitter = time.Duration(rng.Float64() * 3 * float64(c.Latency))
	for f := range faults { // a world has some kinds of faults only, so that they do not hide each other
		if rng.IntN(2) == 0 {
			c.Quiet |= 1 << f
		}
	}
	c.emphasise(rng)
	return c
}

// emphasise makes some worlds of few kinds of faults that matter together only.
func (c *Config) emphasise(rng *rand.Rand) {
	only := func(kinds ...Fault) {
		c.Quiet = 1<<faults - 1
		for _, f := range kinds {
			c.Quiet &^= 1 << f
		}
	}
	within := func(least, most int) time.Duration {
		return time.Duration(least+rng.IntN(most-least+1)) * time.Millisecond
	}
	switch rng.IntN(10) {
	case 0, 1: // recoveries of which a gateway hears nothing, when it has entries that others do not have
		only(CutRecord, NewSet, Compete, LostMessage)
		c.Gateways, c.SetSize, c.Clients, c.Ahead, c.Ring, c.Fresh, c.Severe = 3, 3, 8, 12, 48, true, true
		c.Lasts, c.Every, c.Elect, c.Poll = within(20, 80), within(5, 20), within(3, 15), within(6, 20)
	case 2, 3, 4: // the disks of an era are others than those of the era before, and do not hear of it
		only(NewSet, CutRecord, Crash, LostMessage)
		c.Gateways, c.SetSize, c.SyncTime, c.Severe, c.Loss, c.Several = 5, 3, 200*time.Microsecond, true, 0.2, true
		c.Lasts, c.Every = within(20, 60), within(3, 10)
	case 5: // power ends while nothing is synced
		only(PowerAll, Power, SlowSync)
		c.SyncTime, c.Every = within(3, 20), within(20, 60)
	case 6, 7: // disks are emptied, and the chain is lost, while others are late
		only(LoseDisk, LoseChain, NewSet, Pause, Crash)
		c.Gateways, c.SetSize, c.SyncTime, c.Several = 3, 3, 200*time.Microsecond, true
		c.Lasts, c.Every = within(8, 40), within(4, 15)
	}
}
