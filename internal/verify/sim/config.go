package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// Plane is the data plane of the nodes of a simulation.
type Plane string

// Planes.
const (
	Chain Plane = "chain" // internal/node/chain
	XDP   Plane = "xdp"   // the bytecode, executed by the kernel with BPF_PROG_RUN
)

// Config is the configuration of a simulation. Equal configurations give equal runs.
type Config struct {
	Seed  uint64
	Plane Plane
	Relay bool // tails relay their ACK up the chain (W7)

	Nodes       int // machines, of which some may join late
	Early       int // nodes that are there at the start, at least Replicas
	Controllers int
	Shards      int
	Replicas    int
	Clients     int // each with one operation at a time
	Keys        int // few keys make conflicts
	Ops         int // of each client

	Latency, Jitter                time.Duration // of the network: minimum, and mean of the additional delay
	Loss, Duplicate, Corrupt, Late float64       // probabilities, for each message
	Think                          time.Duration // mean pause of a client between two operations
	Retry                          time.Duration // first timeout of a client; it doubles
	GiveUp                         time.Duration // after which a client reports an unknown outcome
	// probability that a client whose attempt was not answered asks for the map
	Reload  float64
	Bundles float64       // probability that an operation begins in a bundle, with those of clients beside it
	Every   time.Duration // mean time between two faults

	Beat, Lease, Suspect, LeaseMax, SuspectMax, Sure time.Duration // reconfig.Settings
	RepairAfter                                      time.Duration // reconfig.Options
	// mean time between two changes of these settings (L5); 0: none
	Retime time.Duration
	// mean time between two requests that a head steps back (C11); 0: none
	StepBack time.Duration
	// between two looks of a node for tombstones (G4); 0: it does not look
	Sweep time.Duration
	// session entries of a node
	Sessions int

	Quiet   Faults // kinds of faults that do not happen
	Without Rules
}

// Rules are rules of the protocol that are switched off.
type Rules struct {
	Chain   chain.Rule
	Control reconfig.Rule
}

// ParseRule reads the name of one rule, or nothing.
func ParseRule(name string) (Rules, error) {
	if name == "" {
		return Rules{}, nil
	}
	if rule, err := chain.ParseRule(name); err == nil {
		return Rules{Chain: rule}, nil
	}
	if rule, err := reconfig.ParseRule(name); err == nil {
		return Rules{Control: rule}, nil
	}
	return Rules{}, fmt.Errorf("rule %q cannot be switched off: want R4, W2, W5, W8, W12, W14, H4, G1 to G5, L5 or C1 to C9", name)
}

// Draw makes a world from a seed. A quarter of the worlds sever nodes (R4, C9, G5), half of these while the times change
// (L5). In another quarter clocks often stand still (H4). In the other half agents announce their end.
func Draw(seed uint64) Config {
	c := drawMixed(seed)
	switch seed % 4 {
	case 0, 2:
		c.Quiet &^= 1 << Depart
	case 1:
		c.Quiet &^= 1 << Sever
		c.Ops *= 3 // a node is suspected, removed and taken back while clients have something to do
		if c.Nodes == c.Replicas && c.Nodes < 6 {
			c.Nodes++
		}
		if seed%8 == 1 {
			c.Retime = 100 * time.Millisecond
		} else {
			c.Sweep = 25 * time.Millisecond
		}
	case 3:
		c.Quiet = c.Quiet&^(1<<Sleep) | 1<<Drift
		c.Every /= 2
	}
	return c
}

// drawMixed makes a world without [Sever] and [Depart]: quiet or rough, small or less small. Bugs that it found keep
// their seeds.
func drawMixed(seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 1))
	between := func(least, most int) int { return least + rng.IntN(most-least+1) }
	often := func(most float64) float64 { return max(0, rng.Float64()*1.5-0.5) * most } // never, one time in three
	c := Config{
		Seed: seed, Plane: Chain, Relay: rng.IntN(4) == 0,
		Nodes: between(3, 6), Controllers: 3, Shards: 1 << rng.IntN(3), Clients: between(3, 5), Keys: between(1, 6),
		Ops:     between(25, 100),
		Latency: time.Duration(between(20, 150)) * time.Microsecond,
		Loss:    often(0.08), Duplicate: often(0.08), Corrupt: often(0.02), Late: often(0.01),
		Think:  time.Duration(between(500, 6000)) * time.Microsecond,
		Retry:  time.Duration(between(1500, 6000)) * time.Microsecond,
		GiveUp: time.Duration(between(300, 1500)) * time.Millisecond,
		Every:  time.Duration(between(30, 200)) * time.Millisecond,
		Beat:   10 * time.Millisecond, Lease: 60 * time.Millisecond, Suspect: 40 * time.Millisecond,
	}
	c.Reload = 0.02 + 0.6*rng.Float64()
	c.RepairAfter = time.Duration(between(10, 300)) * time.Millisecond
	c.Jitter = time.Duration(rng.Float64() * 3 * float64(c.Latency))
	c.Replicas = min(between(2, 4), c.Nodes)
	if rng.IntN(12) == 0 {
		c.Replicas = 1
	}
	c.Early = between(c.Replicas, c.Nodes)
	if rng.IntN(8) == 0 {
		c.Controllers = 1
	}
	for f := range Still { // a world has some kinds of faults only, so that they do not hide each other
		if rng.IntN(3) == 0 {
			c.Quiet |= 1 << f
		}
	}
	c.Quiet |= 1<<Sever | 1<<Depart
	c.Bundles = often(1)
	c.LeaseMax, c.SuspectMax = c.Lease*time.Duration(between(1, 6)), c.Suspect*time.Duration(between(1, 8))
	c.Sure = time.Duration(between(40, 400)) * time.Millisecond
	if seed%11 == 7 { // without a draw, so that other seeds stay the worlds that they are
		c.Retime = 200 * time.Millisecond
	}
	if seed%6 == 2 || seed%6 == 3 { // likewise
		c.Sweep = 25 * time.Millisecond
	}
	if seed%9 == 4 { // likewise
		c.StepBack = 50 * time.Millisecond
	}
	if c.Sessions = tableSize; seed%13 == 3 { // likewise
		c.Sessions = 2 + c.Clients*c.Shards/2
		// Entries rest soon, and refused writes come again.
		c.GiveUp, c.Late, c.Ops, c.Quiet = 300*time.Millisecond, 0.2, 2*c.Ops, c.Quiet|1<<Sleep
	}
	return c
}

// Validate checks a configuration that was not drawn.
func (c *Config) Validate() error {
	options := c.options()
	switch {
	case c.Nodes < 1 || c.Nodes > int(firstController-firstNode), c.Early < 1 || c.Early > c.Nodes:
		return fmt.Errorf("%d nodes, of which %d are there at the start, cannot be simulated", c.Nodes, c.Early)
	case c.Controllers < 1 || c.Controllers > int(firstClient-firstController):
		return fmt.Errorf("%d controllers cannot be simulated", c.Controllers)
	case c.Clients < 1 || c.Clients > int(endpoints-firstClient):
		return fmt.Errorf("%d clients cannot be simulated", c.Clients)
	case c.Keys < 1 || c.Ops < 1:
		return errors.New("at least one key and one operation are wanted")
	}
	return options.Validate()
}

const tableSize = 1 << 10

// forgetAfter is the time after which a session entry may be forgotten (W12): its client has given up, and no copy of the write
// is under way. A copy may be late on each of its ways: to a node, and forwarded, to the head. Where tables are small,
// no node sleeps: messages wait for one that does.
func (c *Config) forgetAfter() time.Duration { return c.GiveUp + 3*maxDelay + 100*time.Millisecond }

// shardOf is the shard of a key, by their numbers.
func (c *Config) shardOf(key int) int {
	k, err := wire.HashKey([]byte(keyName(key)))
	if err != nil {
		return every
	}
	return int(k.Shard(c.Shards))
}

func (c *Config) options() chain.Options {
	return chain.Options{
		Shards: c.Shards, CellBytes: 64, MaxObjects: tableSize, MaxSessions: c.Sessions, Relay: c.Relay,
		Without: c.Without.Chain,
	}
}

// ParsePlane reads the name of a plane.
func ParsePlane(s string) (Plane, error) {
	if p := Plane(s); p == Chain || p == XDP {
		return p, nil
	}
	return "", fmt.Errorf("there is no plane %q: want %s or %s", s, Chain, XDP)
}
