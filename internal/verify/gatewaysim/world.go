package gatewaysim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

const (
	keyPrefix = "key-"
	// longestRun ends a run in which something waits for ever.
	longestRun = uint64(5 * time.Minute)
	// recovery is how long everything may take to be whole once all faults have ended.
	recovery = uint64(2 * time.Second)
	tick     = 5 * ms
)

// world is everything that exists in a run.
type world struct {
	Config
	*seeded.Clock
	rng        *rand.Rand
	etcd       *etcd
	shards     []*shard
	epochs     uint64
	gateways   []*gateway
	clients    []*client
	busy       int // clients that are not done
	revealed   int64
	calm       bool
	traced     bool
	txns       uint64
	identities map[uint64]identity // of transactions
	plan       string              // a key that will be written past the gateways
	past       string              // it was written
	allowed    bool                // it may be placed again
	settled    bool                // no hit may be older than such a write any more
	lost       []lost              // histories of etcd that ended
	meeting    meeting
	left       bool // all gateways have ended
	again      bool // a key will be placed again, since the chain has an object of before a restore
	result     *Result
}

// Result is the result of a run.
type Result struct {
	Ops, Hits, Unknown int
	Steps              int
	Delivered          int // watch events
	Placed             int // keys put into the chain
	Rounds             int // requests to place or remove keys, of one or several
	OwnWrites          int // of the gateways' own keys, that changed something
	Unguarded          int // writes that passed by a cache that ended
	Expired            int // leases of clients that ended with keys
	Unplaced           int // writes without a session, while nothing was placed
	Restored           int // times that etcd was restored
	Timelines          int // times that a gateway noticed it by etcd's revision
	Met                int // placements that met an object of a lost history
	Noticed            int // writes past the gateways that one of them noticed
	Allowed            int // keys that were written past the gateways, and may be placed again
	Deleted            int // times that a client of etcd deleted keys of sessions
	Vanished           int // times that it deleted keys of the directory
	Cleaned            int // times that the gateways' own keys were deleted
	Detached           int // times that a gateway tried to do without the chain
	Reconfigurations   int
	Simulated          time.Duration
	Faults             [faults]int
	Broken             string // the first check that failed
	At                 time.Duration
	Trace              []string
}

// Run simulates one world.
func Run(c Config) *Result { return run(c, false) }

// Trace is [Run] with remarks on everything that happens.
func Trace(c Config) *Result { return run(c, true) }

func run(c Config, traced bool) *Result {
	w := newWorld(c, traced)
	began := w.Now
	w.play()
	w.finish()
	w.result.Steps = w.Steps
	w.result.Simulated = time.Duration(w.Now - began)
	return w.result
}

// newWorld begins everything that happens in a world.
func newWorld(c Config, traced bool) *world {
	w := &world{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 2)), Clock: &seeded.Clock{Now: uint64(time.Second)},
		traced: traced, identities: make(map[uint64]identity), result: new(Result)}
	w.etcd, w.meeting.rng = newEtcd(w), rand.New(rand.NewPCG(c.Seed, 9))
	for range c.Shards {
		w.shards = append(w.shards, w.newShard())
	}
	if c.Entries { // so that there is a timeline to delete
		w.etcd.beginTimeline("", "timeline 0")
	}
	for i := range c.Gateways {
		g := &gateway{w: w, number: i}
		w.gateways = append(w.gateways, g)
		g.boot()
		g.tick()
	}
	for i := range c.Clients {
		w.clients = append(w.clients, &client{w: w, number: i, left: c.Ops, known: make(map[string]int64)})
	}
	w.busy = c.Clients
	for _, cl := range w.clients {
		cl.think()
	}
	w.nextFault()
	if c.Deletes {
		w.nextDeletion(rand.New(rand.NewPCG(c.Seed, 13)))
	}
	w.nextPlacing()
	if c.Restores {
		w.nextRestore(rand.New(rand.NewPCG(c.Seed, 8)))
	}
	if c.Auth {
		w.nextAuth(rand.New(rand.NewPCG(c.Seed, 5)))
	}
	if c.Leaves {
		w.nextLeave(rand.New(rand.NewPCG(c.Seed, 11)))
	}
	return w
}

// play goes on until all clients are done.
func (w *world) play() {
	for w.busy > 0 && w.Now < longestRun && w.result.Broken == "" {
		w.Step()
	}
	if w.busy > 0 {
		w.broken("stuck: clients are not done")
	}
}

// finish ends all faults and checks that every gateway serves, that placed keys are read from the chain, and that no watch missed
// anything.
func (w *world) finish() {
	w.calm = true
	w.comeBack()
	w.note("all faults end")
	w.etcd.away = 0
	if w.etcd.auth.on {
		w.etcd.disable()
	}
	for _, s := range w.shards {
		s.away = 0
	}
	for _, g := range w.gateways {
		g.cutEtcd, g.cutChain, g.unnamed, g.blind, g.blindFor = 0, 0, 0, 0, 0
		if g.process == nil {
			g.boot()
		}
	}
	w.runFor(recovery / 2)
	if w.settled = true; w.past != "" && w.result.Broken == "" {
		for _, g := range w.gateways {
			w.lastRead(g, w.past, 0)
		}
		w.runFor(recovery / 10)
	}
	var keys []string
	for i := range w.Keys {
		if !w.excludes(keyName(i)) {
			keys = append(keys, keyName(i))
		}
	}
	w.again = false
	w.gateways[0].place(true, keys...)
	w.runFor(recovery / 2)
	if w.again {
		w.runFor(uint64(core.TryAgain))
	}
	if w.result.Broken != "" {
		return
	}
	for _, g := range w.gateways {
		if g.process == nil || !g.process.core.Serving() {
			w.broken("stuck: gateway %d does not serve after all faults", g.number)
			return
		}
		for _, key := range keys {
			w.lastRead(g, key, lastReads)
		}
	}
	w.runFor(recovery)
	for _, g := range w.gateways {
		if len(g.asked) > 0 {
			w.broken("stuck: gateway %d does not answer a read", g.number)
		}
	}
}

// lastReads is how many reads after all faults may miss: one that takes long counts as not answered by the chain.
const lastReads = 8

func (w *world) lastRead(g *gateway, key string, tries int) {
	w.ask(g, func(id uint64) { g.process.read(id, key) }, &expectation{key: key, tries: tries, gateway: g})
}

func (w *world) runFor(d uint64) {
	w.Until(w.Now+d, func() bool { return w.result.Broken == "" })
}

func (w *world) note(format string, args ...any) {
	if w.traced {
		w.result.Trace = append(w.result.Trace, w.Note(format, args...))
	}
}

func (w *world) broken(format string, args ...any) {
	if w.result.Broken == "" {
		w.result.Broken, w.result.At = fmt.Sprintf(format, args...), time.Duration(w.Now)
		w.note("BROKEN: %s", w.result.Broken)
	}
}

func keyName(i int) string { return keyPrefix + strconv.Itoa(i) }

func describe(r *core.Result) string {
	if r.Unknown {
		return "unknown"
	}
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("revision %d, held %v, succeeded %v", r.Rev, r.Held, r.Succeeded)
}

func describeRequest(r *core.Request) string {
	text := ""
	for _, c := range r.If {
		text += fmt.Sprintf("if %s %d=%d%s ", c.Key, c.Kind, c.Rev, c.Value)
	}
	for _, p := range r.Put {
		text += fmt.Sprintf("put %s=%s ", p.Key, p.Value)
	}
	for _, k := range r.Delete {
		text += "delete " + k + " "
	}
	if r.Txn != nil {
		text += fmt.Sprintf("txn %v then %v else %v ", r.Txn.If, r.Txn.Then, r.Txn.Else)
	}
	return text + fmt.Sprintf("get %v list %v", r.Get, r.List)
}

func describeOp(op *core.Op, a *core.Answer) string {
	text := fmt.Sprintf("%v %s instance %d bit %d ticket %d rev %d",
		op.Kind, op.Key, op.Instance, op.Bit, op.Ticket, op.Rev)
	if op.Kind == core.Resolve || op.Kind == core.Load {
		text += fmt.Sprintf(" %v at %d clear %v", op.Entry.State, op.Entry.Rev, op.Clear)
	}
	text += fmt.Sprintf(" -> %v ticket %d rev %d", a.Status, a.Ticket, a.Rev)
	if op.Kind == core.ReadObject {
		o := &a.Object
		text += fmt.Sprintf(" instance %d joining %v bits %b %v at %d", o.Instance, o.Joining, o.Bits, o.State, o.Rev)
	}
	return text
}
