package membersim

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// Config describes a simulated run. Equal configurations give equal runs.
type Config struct {
	Seed    uint64
	Members int // at first
	Clients int
	Ops     int // of each client
	Keys    int
	Shards  int

	Latency, Jitter       time.Duration
	Loss, Duplicate, Late float64       // probabilities, for each message
	Lag                   time.Duration // mean additional delay until a member applies what is committed
	Think                 time.Duration // mean pause of a client
	Every                 time.Duration // mean time between two faults
	TTL                   time.Duration // of members' rights to read fast
	Tick                  time.Duration // between two looks of a member at its state
	Patience              time.Duration // for a call of the chain
	Again                 time.Duration // until a call is sent again
	Drift                 float64       // how much faster or slower a member's clock may be

	Severe  bool   // a member that hears nothing is the only one with a chain
	Quiet   uint32 // kinds of faults that do not happen, as bits
	Without core.Rule
}

// Fault is a kind of fault.
type Fault int

// The kinds of faults.
const (
	Crash      Fault = iota // a member's process, which starts again from an older applied state
	Pause                   // a member's process does nothing, and its clock goes on
	CutRaft                 // a member neither reaches the leader nor hears of entries
	CutChain                // a member does not reach the chain
	Slow                    // a member applies late
	LeaderLost              // nothing is committed for a while
	ShardAway               // a shard does not answer for a while
	LoseShard               // a shard loses its state
	Switch                  // an operator switches chain reads off, at one member or all, and on again
	Replace                 // a member is stopped and started again, as plain etcd or as ours
	AddMember               // as a learner, plain or ours
	RemoveMember
	Lost
	Repeated
	LateMessage
	faults
)

func (f Fault) String() string {
	return [...]string{
		"crash", "pause", "cut-raft", "cut-chain", "slow", "leader-lost", "shard-away", "lost-shard", "switch", "replace", "add",
		"remove", "loss", "duplicate", "late",
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
		Seed: seed, Members: between(1, 4), Clients: between(3, 6), Ops: between(30, 90), Keys: between(1, 3), Shards: between(1, 2),
		Latency: time.Duration(between(20, 200)) * time.Microsecond,
		Loss:    often(0.05), Duplicate: often(0.08), Late: often(0.05),
		Think: time.Duration(between(200, 3000)) * time.Microsecond,
		Every: time.Duration(between(10, 80)) * time.Millisecond,
		TTL:   time.Duration(between(30, 90)) * time.Millisecond,
		Tick:  time.Duration(between(3, 16)) * time.Millisecond,
		Drift: often(0.02), Patience: time.Duration(between(3, 15)) * time.Millisecond,
		Again: time.Duration(between(3, 9)) * time.Millisecond,
	}
	c.Lag = time.Duration(often(float64(8 * time.Millisecond)))
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
	switch rng.IntN(8) {
	case 0, 1: // a member hears nothing while others have no chain
		only(Pause, CutRaft, CutChain)
		c.Members, c.Every, c.Severe = 3, 3*c.TTL, true
	case 2: // writes of the chain are late
		only(LateMessage)
		c.Members, c.Late, c.Patience, c.Again = 1+rng.IntN(2), 0.15, 3*time.Millisecond, time.Second
		c.TTL, c.Think = 300*time.Millisecond, 200*time.Microsecond
	case 3: // members start again while another one is late
		only(Crash, CutRaft, Switch)
		c.Members, c.Every, c.Shards = 2+rng.IntN(2), c.TTL/2, 1
	}
}
