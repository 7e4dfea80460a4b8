package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Protocol is the protocol of a run's nodes and clients.
type Protocol string

// Protocols.
const (
	NetChain     Protocol = "netchain"          // SEQ of 16 bits
	NetChain32   Protocol = "netchain-32"       // SEQ of 32 bits
	NetCRAQPaper Protocol = "netcraq-published" // NetCRAQ as its paper describes it
	Ours         Protocol = "netcraq"           // internal/node/chain
)

// Protocols lists all.
func Protocols() []Protocol { return []Protocol{NetChain, NetChain32, NetCRAQPaper, Ours} }

// ParseProtocol reads a protocol's name.
func ParseProtocol(name string) (Protocol, error) {
	var names []string
	for _, p := range Protocols() {
		if string(p) == name {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", fmt.Errorf("protocol %q: want one of %s", name, strings.Join(names, ", "))
}

// The network and the clients, in every run.
const (
	hop        = 100 * time.Microsecond // of a packet from one machine to another
	retryAfter = 50 * time.Millisecond  // silence after which a client tries again: the papers' figure
	attempts   = 6                      // after which it gives up
	// lastAttempts bounds the attempts of the last client, which reads the final state. Without faults
	// the first one is answered.
	lastAttempts = 3
	settleFor    = 500 * time.Millisecond // after the last packet, until the last client begins
	maxDelay     = 300 * time.Millisecond // that a packet may be late
	maxBurst     = 400 * time.Millisecond // that a link may lose everything
)

// Config is a run. Equal configurations give equal runs.
type Config struct {
	Protocol Protocol
	Seed     uint64
	Nodes    int // of the chain
	Keys     int
	Before   int // writes of the first key, really made and without faults, before the clients begin
	Ops      []Op
	Drawn    bool // faults come from Seed and Weather; else they are Faults
	Weather  Weather
	Faults   []Fault
}

// Op is an operation of a client. A client makes its operations in order, one at a time.
type Op struct {
	ID     int // in the workload of the seed, from 1; stays when others are left out
	Client int
	Key    int
	Write  bool
	Node   int           // where a read goes first, where the protocol lets nodes answer
	Think  time.Duration // before it
}

// Weather says how likely faults are.
type Weather struct {
	Loss, Repeat, Late float64 // of each packet
	Bursts             []Burst
}

// Burst is a time in which a link loses everything.
type Burst struct {
	Link
	From, Until time.Duration
}

// Link is one direction between two machines.
type Link struct{ From, To Endpoint }

// Endpoint is a machine: nodes from 0 up, clients from firstClient.
type Endpoint int

const firstClient Endpoint = 100

// String is the machine's name.
func (e Endpoint) String() string {
	if e >= firstClient {
		return fmt.Sprintf("c%d", e-firstClient+1)
	}
	return fmt.Sprintf("n%d", e+1)
}

// FaultKind is the effect of a fault on a packet.
type FaultKind string

// Kinds of faults.
const (
	Lose   FaultKind = "lost"
	Repeat FaultKind = "repeated"
	Delay  FaultKind = "late"
)

// Fault affects the n-th packet, counted from 1, of those that a link carries because of one
// operation.
type Fault struct {
	Link
	Op   int // its ID; 0: packets that agents send on their own
	Nth  int
	Kind FaultKind
	By   time.Duration // Delay: so much later; Repeat: the copy is so much later
}

const (
	// wrapEvery is how many seeds there are to one whose clients begin shortly before 16 bits end.
	wrapEvery = 8
	// wrapBefore is how many writes come before those clients.
	wrapBefore = 1<<16 - 8
)

// Draw makes a run from a seed. All but the protocol depends on the seed alone.
func Draw(p Protocol, seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 1))
	between := func(least, most int) int { return least + rng.IntN(most-least+1) }
	often := func(most float64) float64 { return max(0, rng.Float64()*1.5-0.5) * most } // never, one time in three
	c := Config{
		Protocol: p, Seed: seed, Nodes: between(3, 4), Keys: between(1, 2), Drawn: true,
		Weather: Weather{Loss: often(0.15), Repeat: often(0.10), Late: often(0.10)},
	}
	if seed%wrapEvery == 0 {
		c.Before = wrapBefore
	}
	clients, ops, writes, think := between(2, 4), between(5, 20), 0.3+0.5*rng.Float64(), between(1, 15)
	for client := range clients {
		for range ops {
			c.Ops = append(c.Ops, Op{
				ID: len(
					c.Ops) + 1, Client: client, Key: rng.IntN(c.Keys), Write: rng.Float64() < writes, Node: rng.IntN(c.Nodes),
				Think: time.Duration(rng.IntN(2*think*1000)) * time.Microsecond,
			})
		}
	}
	for range rng.IntN(4) {
		from, to := rng.IntN(c.Nodes), 1+rng.IntN(c.Nodes-1)
		begin := time.Duration(rng.Int64N(int64(maxBurst / 4)))
		c.Weather.Bursts = append(c.Weather.Bursts, Burst{
			Link{
				Endpoint(from),
				Endpoint((from + to) % c.Nodes),
			}, begin, begin + time.Duration(rng.Int64N(int64(maxBurst))),
		})
	}
	return c
}
