package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/wire"
)

const (
	// startTime is the first moment. Nothing has the time zero.
	startTime = uint64(time.Second)
	// longestRun ends a run in which clients wait for ever; each of them gives up much earlier.
	longestRun = uint64(10 * time.Minute)
	// recovery is how long the cluster may take to be whole once all faults have ended.
	recovery = uint64(5 * time.Second)
)

// world is everything that exists in a run.
type world struct {
	Config
	now         uint64
	events      queue
	net         network
	nemesis     nemesis
	nodes       []*node
	controllers []*controller
	store       *store
	clients     []*client
	busy        int // clients that are not done
	calm        bool
	keys        []wire.Key
	numbers     map[wire.Key]int
	watch       watch
	traced      bool
	result      *Result
}

// Result is the result of a run.
type Result struct {
	History          []history.Op
	Steps            int // events
	Reconfigurations int // epochs of a shard in which its chain became active, but the first
	Returns          int // copies to nodes that needed only the changes
	StepBacks        int // heads that were asked to step back, and could (C11)
	Collected        int // tombstones that a node deleted (G4)
	Forgotten        int // session entries that a node deleted under pressure (W12)
	Refused          int // writes that found no room for their session (W14)
	Simulated        time.Duration
	Bundled          int // operations whose first attempt travelled in a bundle
	Lost             int // shards whose last copy was lost, as their number of members allows
	Undecided        int // keys whose history took too long to check: set by Judge
	Faults           [faults]int
	Broken           *Broken // the first invariant that did not hold
	Trace            []Line
}

// Broken says that an invariant did not hold.
type Broken struct {
	At         time.Duration
	Shard, Key int
	Err        error
}

// Run simulates until all clients are done, all faults are over and the cluster is whole.
func Run(c Config, planes *Planes) (*Result, error) { return run(c, planes, false) }

// Trace is [Run] with remarks on everything that happens.
func Trace(c Config, planes *Planes) (*Result, error) { return run(c, planes, true) }

func run(c Config, planes *Planes, traced bool) (*Result, error) {
	w, err := newWorld(c, planes, traced)
	if err != nil {
		return nil, err
	}
	w.form()
	for w.busy > 0 && w.now < longestRun {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	if w.busy > 0 {
		w.broken(every, every, "stuck: clients are not done")
	}
	return w.result, w.finish()
}

func newWorld(c Config, planes *Planes, traced bool) (*world, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &world{Config: c, now: startTime, numbers: make(map[wire.Key]int), traced: traced, result: new(Result)}
	for i := range c.Keys {
		key, err := wire.HashKey([]byte(keyName(i)))
		if err != nil {
			return nil, err
		}
		w.keys = append(w.keys, key)
		w.numbers[key] = i
	}
	w.net = network{w: w, rng: w.stream(1)}
	w.nemesis = nemesis{w: w, rng: w.stream(2), still: w.stream(6), sever: w.stream(7), leave: w.stream(9)}
	w.watch = newWatch(w)
	w.store = newStore(w)
	for i := range c.Controllers {
		w.controllers = append(w.controllers, newController(w, i))
	}
	for i := range c.Nodes {
		p, err := planes.take(c.Plane, (firstNode + endpoint(i)).addr(), c.options())
		if err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, newNode(w, i, p))
	}
	for i := range c.Clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	w.busy = c.Clients
	return w, nil
}

// stream is a source of random numbers of its own, so that one part of the world does not disturb the others.
func (w *world) stream(number uint64) *rand.Rand { return rand.New(rand.NewPCG(w.Seed, number<<8|2)) }

func (w *world) after(d uint64, do func()) { w.events.push(w.now+d, do) }

// step makes the next thing happen.
func (w *world) step() error {
	e := w.events.pop()
	w.now = e.at
	w.result.Steps++
	e.do()
	return w.watch.failed
}

// until steps up to a moment, or until there is nothing to wait for.
func (w *world) until(end uint64, waiting func() bool) error {
	for w.now < end && waiting() {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) broken(shard, key int, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.note(shard, key, "BROKEN: %v", err)
	if w.result.Broken == nil {
		w.result.Broken = &Broken{time.Duration(w.now), shard, key, err}
	}
}

// finished is called by a client after each operation.
func (w *world) finished(c *client) {
	if c.left == 0 {
		w.busy--
	}
}

// form lets controllers, nodes and clients begin.
func (w *world) form() {
	for _, c := range w.controllers {
		c.start()
	}
	w.store.begin()
	for _, n := range w.nodes[:w.Early] {
		n.boot()
	}
	for _, c := range w.clients {
		c.reload()
		c.think()
	}
	w.nemesis.next()
	if !w.Quiet.has(Sever) {
		w.nemesis.severing(0)
	}
	if w.Retime > 0 {
		w.retime()
	}
	if w.StepBack > 0 {
		w.stepBack()
	}
}

// finish ends all faults, and checks that the cluster becomes whole and its members agree (I7).
func (w *world) finish() error {
	w.calm = true
	w.note(every, every, "all faults end")
	w.net.heal()
	for _, n := range w.nodes {
		if n.joined {
			n.boot()
			n.startAgent()
		}
	}
	last := w.now
	for _, c := range w.controllers {
		c.start()
		last = max(last, c.paused, c.storeAway)
	}
	for _, n := range w.nodes {
		last = max(last, n.paused, n.asleep)
	}
	if err := w.until(last, func() bool { return true }); err != nil {
		return err
	}
	recovery := recovery
	if w.Sessions < tableSize { // copies wait for entries that rest
		recovery += 8 * uint64(w.forgetAfter())
	}
	if err := w.until(w.now+recovery, func() bool { return !w.whole() }); err != nil {
		return err
	}
	if shard, why := w.unwhole(); why != "" {
		w.broken(shard, every, "not whole: shard %d, %v after the last fault: %s", shard, time.Duration(recovery), why)
	}
	if err := w.until(w.now+recovery, func() bool { return !w.watch.agree() }); err != nil {
		return err
	}
	w.watch.checkAgreement()
	w.result.Simulated = time.Duration(w.now - startTime)
	return w.watch.failed
}

func (w *world) whole() bool {
	_, why := w.unwhole()
	return why == ""
}

const keyPrefix = "key-"

func keyName(i int) string { return keyPrefix + strconv.Itoa(i) }

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func (w *world) keyNumber(k wire.Key) int {
	if i, ok := w.numbers[k]; ok {
		return i
	}
	return every
}
