package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/history"
	"github.com/netcraq/netcraq/wire"
)

// Config says what is simulated. Equal configurations give equal runs.
type Config struct {
	Seed      uint64
	Nodes     int     // of the chain at the start
	Clients   int     // each with one operation at a time
	Keys      int     // few keys make conflicts
	Ops       int     // of each client
	Loss      float64 // probability that a message is lost
	Duplicate float64 // probability that a message is delivered and stays on its way
	Failures  int     // nodes that leave the chain, most; one always stays
	Relay     bool    // tails relay their ACK up the chain
	Without   chain.Rule
}

// Result is what a run showed.
type Result struct {
	History []history.Op
	Steps   int
	Repairs int   // of the chain, completed
	Broken  error // the first invariant that did not hold
}

// How often things happen, as weights among each other.
const (
	weightDeliver = 60
	weightClient  = 30
	weightSettle  = 2
	weightRenew   = 4
	weightRepair  = 8
	weightFail    = 1
)

const (
	leaseSteps = 400    // how long a read lease lasts
	maxSteps   = 200000 // a run that takes longer is stuck
	tableSize  = 1 << 12
)

// world is everything that exists in a run.
type world struct {
	Config
	rng      *rand.Rand
	now      uint64 // the clock of everybody: steps
	nodes    []*member
	chain    []int // indices of the current members, head first
	epoch    uint32
	flying   []packet
	clients  []*client
	keys     []wire.Key
	repair   []func() bool // what is left to do of a repair; an entry that returns false has to wait
	failures int
	acked    map[wire.Key]uint64 // newest version that was answered with OK
	result   *Result
}

// member is one node of the simulation.
type member struct {
	index int
	addr  netip.AddrPort
	node  *chain.Node
	dead  bool
	seen  map[wire.Key]chain.Object // at the last check, for what may not go down
}

// Run simulates until all clients are done and all messages have arrived.
func Run(c Config) *Result {
	w := newWorld(c)
	for w.busy() {
		w.now++
		w.act()
		w.check()
		if w.now > maxSteps {
			w.broken(fmt.Errorf("stuck: clients are not done after %d steps", maxSteps))
			break
		}
	}
	w.finish()
	w.result.Steps = int(w.now)
	return w.result
}

func newWorld(c Config) *world {
	w := &world{
		Config: c, rng: rand.New(rand.NewPCG(c.Seed, 0)), epoch: 1,
		acked: make(map[wire.Key]uint64), result: new(Result),
	}
	for i := range c.Keys {
		key, err := wire.HashKey([]byte(keyName(i)))
		if err != nil {
			panic("sim: " + err.Error())
		}
		w.keys = append(w.keys, key)
	}
	options := chain.Options{
		Shards: 1, CellBytes: 64, MaxObjects: tableSize, MaxSessions: tableSize, Relay: c.Relay, Without: c.Without,
	}
	for i := range c.Nodes {
		w.nodes = append(w.nodes, &member{
			index: i, node: chain.New(options), seen: make(map[wire.Key]chain.Object),
			addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), wire.Port),
		})
		w.chain = append(w.chain, i)
	}
	for i := range w.nodes {
		w.configure(i, chain.Active)
		w.grant(i)
	}
	for i := range c.Clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	return w
}

func keyName(i int) string { return fmt.Sprintf("key-%d", i) }

func (w *world) busy() bool {
	for _, c := range w.clients {
		if !c.done() {
			return true
		}
	}
	return len(w.repair) > 0
}

// act does one thing.
func (w *world) act() {
	weights := []struct {
		weight int
		do     func()
	}{
		{min(weightDeliver, 6*len(w.flying)), w.deliver},
		{weightClient, func() { w.clients[w.rng.IntN(len(w.clients))].act() }},
		{weightSettle, w.settle},
		{weightRenew, w.renew},
		{weightRepair * min(1, len(w.repair)), w.continueRepair},
		{weightFail * min(1, w.Failures-w.failures), w.fail},
	}
	sum := 0
	for _, a := range weights {
		sum += a.weight
	}
	n := w.rng.IntN(sum)
	for _, a := range weights {
		if n < a.weight {
			a.do()
			return
		}
		n -= a.weight
	}
}

// chance is true with the given probability.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) broken(err error) {
	if w.result.Broken == nil {
		w.result.Broken = fmt.Errorf("step %d: %w", w.now, err)
	}
}
