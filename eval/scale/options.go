package scale

import (
	"fmt"
	"math/bits"
)

// Fabric is a network of switches that hold objects.
type Fabric struct {
	Leaves, Spines int
	LeavesOnly     bool // spines hold nothing
	Chain          int  // nodes of a chain; 0: 3
	Shards         int  // of the keys, 2 to 65,536; 0: enough for hashing to balance them
}

// SpineLeaf is the fabric of so many switches that NetChain's authors calculate with: one spine for
// two leaves.
func SpineLeaf(switches int) Fabric {
	spines := max(1, switches/3)
	return Fabric{Leaves: switches - spines, Spines: spines}
}

// Protocol is how nodes of a chain work together.
type Protocol string

// Protocols. Their names are those of the benchmarks.
const (
	NetChain     Protocol = "netchain"          // the tail answers reads; chains are where the ring puts them
	NetCRAQPaper Protocol = "netcraq-published" // every node answers clean reads; chains are where the ring puts them
	Ours         Protocol = "netcraq"           // the same, and chains are levelled among nodes
)

// Rates are packets per second that one node can do if it does nothing else. They are to be
// measured, for each protocol with its own packets.
type Rates struct {
	Transit float64 // packets for others passed on
	Read    float64 // reads answered
	Forward float64 // reads of dirty objects passed on to the tail; 0: as Transit
	Write   float64 // writes applied and passed on
	Commit  float64 // writes applied and answered by the tail, with all ACKs that it sends; 0: as Write
	Ack     float64 // ACKs taken; 0: as Transit

	// HopSeconds is how long a packet takes from one switch into the next. It decides how long
	// objects stay dirty. 0: 10 microseconds.
	HopSeconds float64
}

const hopSeconds = 10e-6

// Spread is the distribution of reads among the nodes that may answer them.
type Spread string

// Spreads.
const (
	// Even gives every node of a chain the same share of its reads, as by clients that ask a random one. It
	// is the default.
	Even Spread = "even"
	// Level minimizes the work of the busiest node. It is a bound: no client knows the load of all nodes.
	Level Spread = "level"
)

// Work is the mix of the clients' requests.
type Work struct {
	WriteShare float64 // 0 to 1
	Zipf       float64 // exponent of the keys' popularity; 0: uniform
	Keys       int     // 0: 100,000
	Spread     Spread  // of reads; of no effect in NetChain's protocol
	Seed       uint64  // of the hash of keys to shards
	// hashes that are tried, with seeds one after the other, because it matters where popular keys meet; 0: 5
	Draws int
}

const (
	defaultKeys  = 100_000
	defaultDraws = 5
)

// Result is the throughput of a fabric. All fields but the extremes are of the median draw.
type Result struct {
	Switches   int     `json:"switches"`
	PerSecond  float64 `json:"per_second"`
	Least      float64 `json:"least_per_second"` // of all draws
	Most       float64 `json:"most_per_second"`
	Bottleneck string  `json:"bottleneck"` // the switch that is busy all the time
	// part of the time in which a switch is busy then, on average, 0 to 1
	MeanBusy float64 `json:"mean_busy"`
	Packets  float64 `json:"packets_per_operation"` // that switches handle
	Dirty    float64 `json:"dirty"`                 // part of the reads that meet a dirty object and go on to the tail
}

func (f *Fabric) withDefaults() error {
	if f.Chain == 0 {
		f.Chain = 3
	}
	holders := f.holders()
	if f.Shards == 0 {
		const perHolder = 128
		f.Shards = min(maxShards, max(4096, 1<<bits.Len(uint(perHolder*holders-1))))
	}
	switch {
	case f.Leaves < 1 || f.Spines < 1:
		return fmt.Errorf("a fabric of %d leaves and %d spines: want at least one of each", f.Leaves, f.Spines)
	case f.Chain < 1 || f.Chain > holders:
		return fmt.Errorf("chains of %d nodes with %d switches that hold objects: want 1 to %d", f.Chain, holders,
			holders)
	case f.Shards < 2 || f.Shards > maxShards:
		return fmt.Errorf("%d shards: want 2 to %d", f.Shards, maxShards)
	}
	return nil
}

// maxShards is the number of shards that 16 bits can tell apart.
const maxShards = 1 << 16

func (f *Fabric) holders() int {
	if f.LeavesOnly {
		return f.Leaves
	}
	return f.Leaves + f.Spines
}

func (r *Rates) withDefaults() error {
	fill := func(rate *float64, otherwise float64) {
		if *rate == 0 {
			*rate = otherwise
		}
	}
	fill(&r.Forward, r.Transit)
	fill(&r.Commit, r.Write)
	fill(&r.Ack, r.Transit)
	fill(&r.HopSeconds, hopSeconds)
	for _, rate := range []float64{r.Transit, r.Read, r.Forward, r.Write, r.Commit, r.Ack, r.HopSeconds} {
		if !(rate > 0) {
			return fmt.Errorf("rates %+v: want all above 0", *r)
		}
	}
	return nil
}

func (w *Work) withDefaults() error {
	if w.Keys == 0 {
		w.Keys = defaultKeys
	}
	if w.Spread == "" {
		w.Spread = Even
	}
	if w.Draws == 0 {
		w.Draws = defaultDraws
	}
	if w.Keys < 1 || w.Draws < 1 || !(w.WriteShare >= 0 && w.WriteShare <= 1) || !(w.Zipf >= 0) ||
		w.Spread != Level && w.Spread != Even {
		return fmt.Errorf(
			"work %+v: want keys and draws, a write share from 0 to 1, an exponent of at least 0, and a "+
				"spread %q or %q",
			*w, Even, Level)
	}
	return nil
}
