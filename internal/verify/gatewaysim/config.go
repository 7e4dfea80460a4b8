package gatewaysim

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// Config describes a simulated run. Equal configurations give equal runs.
type Config struct {
	Seed     uint64
	Gateways int
	Keys     int
	Shards   int
	Clients  int
	Ops      int // of each client

	Latency, Jitter       time.Duration
	Loss, Duplicate, Late float64       // probabilities, for each message
	Stop                  float64       // probability that a gateway crashes at an effect
	Lag                   time.Duration // mean additional delay of watches
	Think                 time.Duration // mean pause of a client
	Every                 time.Duration // mean time between two faults
	Placing               time.Duration // mean time between two changes of the directory
	Lease                 time.Duration // of sessions

	Services bool // clients use locks and elections, and share leases
	Restores bool // etcd is restored from backups
	Meetings bool // placements meet objects of before
	Deletes  bool // a client of etcd deletes the gateways' keys
	Bits     bool // those of bits only, and often
	Entries  bool // those of the directory, or all, and often
	Leaves   bool // all gateways end, and their keys are deleted
	Auth     bool // etcd's authentication is switched on and off, some clients are users, and some delete everything

	Quiet   uint32 // kinds of faults that do not happen, as bits
	Without core.Rule
}

// Fault is a kind of fault.
type Fault int

// The kinds of faults.
const (
	Crash Fault = iota
	Pause
	CutEtcd
	CutChain
	Reconfigure // a shard does not answer for a while
	LoseShard   // a shard loses its state
	LeaderLost  // etcd does not answer for a while
	EndSession  // etcd hears no more of a session whose gateway lives
	Lost
	Repeated
	LateMessage
	Authentication // etcd refuses requests without a token for a while
	faults
)

func (f Fault) String() string {
	return [...]string{
		"crash", "pause", "cut-etcd", "cut-chain", "reconfiguration", "lost-shard", "leader-lost", "end-session",
		"loss", "duplicate", "late", "authentication",
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
		Seed: seed, Gateways: between(1, 4), Keys: between(1, 3), Shards: between(1, 2), Clients: between(2, 6),
		Ops:     between(60, 240),
		Latency: time.Duration(between(20, 200)) * time.Microsecond,
		Loss:    often(0.05), Duplicate: often(0.08), Late: often(0.05), Stop: often(0.002),
		Think:   time.Duration(between(100, 3000)) * time.Microsecond,
		Every:   time.Duration(between(20, 300)) * time.Millisecond,
		Placing: time.Duration(between(3, 40)) * time.Millisecond, Lease: time.Duration(between(40, 150)) * time.Millisecond,
	}
	c.Lag = time.Duration(often(float64(25 * time.Millisecond)))
	c.Jitter = time.Duration(rng.Float64() * 4 * float64(c.Latency))
	c.Services = rand.New(rand.NewPCG(seed, 3)).IntN(4) > 0
	c.Auth = rand.New(rand.NewPCG(seed, 4)).IntN(5) < 3
	if c.Deletes = c.Auth && rand.New(rand.NewPCG(seed, 14)).IntN(3) == 0; c.Deletes {
		c.Auth = false
	}
	if c.Auth {
		c.Every, c.Ops, c.Clients = 3*c.Every, 2*c.Ops, max(c.Clients, 4)
	}
	if c.Restores = !c.Auth && !c.Deletes && rand.New(rand.NewPCG(seed, 7)).IntN(5) > 0; c.Restores {
		c.Ops, c.Every, c.Gateways, c.Clients = 2*c.Ops, 2*c.Every, max(c.Gateways, 2), max(c.Clients, 4)
		c.Placing /= 3
		if c.Meetings = rand.New(rand.NewPCG(seed, 10)).IntN(2) == 0; c.Meetings {
			c.Shards, c.Keys = 2, max(c.Keys, 2)
		}
	}
	c.Leaves = !c.Auth && rand.New(rand.NewPCG(seed, 12)).IntN(3) == 0
	if c.Deletes = c.Deletes || !c.Auth && !c.Restores; c.Deletes {
		c.Gateways, c.Lease = max(c.Gateways, 2), c.Lease+100*time.Millisecond
		c.Bits = rand.New(rand.NewPCG(seed, 15)).IntN(3) == 0
		if c.Entries = !c.Bits && rand.New(rand.NewPCG(seed, 16)).IntN(2) == 0; c.Entries {
			c.Placing = max(c.Placing, 30*time.Millisecond)
		}
		c.Leaves = c.Leaves && c.Bits // a clean-up relies on the keys of sessions
	}
	for f := range faults { // a world has some kinds of faults only, so that they do not hide each other
		if rng.IntN(3) == 0 {
			c.Quiet |= 1 << f
		}
	}
	c.Quiet &^= 1 << Authentication // [Config.Auth] says whether it happens
	return c
}
