package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is a kind of failure, or of an operator's action.
type Fault uint8

// Faults of messages, each message on its own.
const (
	Loss Fault = iota
	Duplicate
	Late
	Corrupt
	// Faults of machines.
	Crash   // a machine loses all it knows, and may come back
	Restart // an agent ends and starts again; its data plane goes on
	Pause   // an agent does nothing for a while; its data plane goes on
	Sleep   // a machine does nothing for a while, but its clock goes on
	Drift   // clocks run at different rates
	// Faults of links.
	Partition  // a host receives nothing and reaches no other host
	OneWay     // messages from one machine to another get lost
	ControlCut // controllers and a node do not hear each other, in one direction or both
	CopyBreak  // a copy ends half-way
	// Faults of controllers.
	Election        // another controller is elected, though the leader lives
	ControllerCrash // a controller starts again and knows nothing
	ControllerPause // a controller does nothing for a while
	StoreAway       // a controller does not reach the store, or late
	// Actions of operators.
	Join
	Drain
	Move
	Resize // other numbers of replicas, in the cluster or of a hot shard
	// Still is a Sleep in which the machine's clock stands still too, in worlds without Drift. A seed does not draw it, so that
	// seeds from before it mean the same worlds.
	Still
	// Sever parts a node's agent and its data plane from controllers for longer than a lease; clients and other nodes
	// still reach it. A seed does not draw it either.
	Sever
	// Depart is a Restart in which the agent announces its end, and ends when the leader releases it. A seed does not draw
	// it either.
	Depart
	faults
)

var faultNames = [faults]string{
	"loss", "duplicate", "late", "corrupt", "crash", "restart", "pause", "sleep", "drift", "partition",
	"one-way", "control-cut",
	"copy-break", "election", "controller-crash", "controller-pause", "store-away", "join", "drain", "move", "resize",
	"still", "sever", "depart",
}

// AllFaults lists the kinds of faults.
func AllFaults() []Fault {
	var list []Fault
	for f := range faults {
		list = append(list, f)
	}
	return list
}

// String is the fault's name.
func (f Fault) String() string { return faultNames[f] }

// Faults is a set of them.
type Faults uint32

func (s Faults) has(f Fault) bool { return s>>f&1 != 0 }

// String lists the names, as [ParseFaults] reads them.
func (s Faults) String() string {
	var names []string
	for f := range faults {
		if s.has(f) {
			names = append(names, f.String())
		}
	}
	return strings.Join(names, ",")
}

// ParseFaults reads names of faults with commas between them.
func ParseFaults(list string) (Faults, error) {
	var s Faults
	for name := range strings.SplitSeq(list, ",") {
		f := slices.Index(faultNames[:], name)
		if f < 0 && name != "" {
			return 0, fmt.Errorf("there is no fault %q: want some of %s", name, strings.Join(faultNames[:], ","))
		}
		if name != "" {
			s |= 1 << f
		}
	}
	return s, nil
}

// happens draws whether a fault of one message happens, and counts it.
func (w *world) happens(rng *rand.Rand, f Fault, probability float64) bool {
	if probability == 0 || w.calm || w.Quiet.has(f) || rng.Float64() >= probability {
		return false
	}
	w.result.Faults[f]++
	return true
}

// nemesis makes faults happen, one after the other, as long as clients have something to do.
type nemesis struct {
	w     *world
	rng   *rand.Rand
	still *rand.Rand // for [Still]
	sever *rand.Rand // for [Sever]
	leave *rand.Rand // for [Depart]
}

// deed is a fault with its relative frequency and the function that injects it. The function returns false if the fault is
// impossible now.
type deed struct {
	fault  Fault
	weight int
	do     func(*nemesis) bool
}

var deeds = []deed{
	{Crash, 6, (*nemesis).crash},
	{Restart, 4, (*nemesis).restart},
	{Pause, 4, (*nemesis).pause},
	{Sleep, 4, (*nemesis).sleep},
	{Partition, 4, (*nemesis).partition},
	{OneWay, 4, (*nemesis).oneWay},
	{ControlCut, 4, (*nemesis).controlCut},
	{Election, 5, (*nemesis).elect},
	{ControllerCrash, 3, (*nemesis).crashController},
	{ControllerPause, 3, (*nemesis).pauseController},
	{StoreAway, 3, (*nemesis).storeAway},
	{Join, 4, (*nemesis).join},
	{Drain, 3, (*nemesis).drain},
	{Move, 4, (*nemesis).move},
	{Resize, 3, (*nemesis).resize},
}

// next plans the next fault.
func (e *nemesis) next() {
	e.w.after(uint64(e.rng.ExpFloat64()*float64(e.w.Every)), func() {
		if e.w.calm {
			return
		}
		e.act()
		e.next()
	})
}

func (e *nemesis) act() {
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	n := e.rng.IntN(sum)
	for _, d := range deeds {
		if n -= d.weight; n < 0 {
			if !e.w.Quiet.has(d.fault) && d.do(e) {
				e.w.result.Faults[d.fault]++
			}
			return
		}
	}
}

// some is how long a fault lasts: around the time after which nodes are suspected.
func (e *nemesis) some() uint64 { return uint64(e.rng.ExpFloat64() * float64(2*e.w.Suspect)) }

func (e *nemesis) node() *node { return e.w.nodes[e.rng.IntN(len(e.w.nodes))] }

// victim is a node that is not precious, or nil.
func (e *nemesis) victim() *node {
	if n := e.node(); n.up && !e.w.precious(n) {
		return n
	}
	return nil
}

func (e *nemesis) controller() *controller { return e.w.controllers[e.rng.IntN(len(e.w.controllers))] }

// anyone is a node or, less often, a controller.
func (e *nemesis) anyone() endpoint {
	if e.rng.IntN(4) == 0 {
		return e.controller().endpoint()
	}
	return e.node().endpoint()
}

func (e *nemesis) crash() bool {
	n := e.victim()
	if n == nil || !e.w.spare(n) {
		return false
	}
	n.crash()
	e.w.after(e.some()*uint64(1+e.rng.IntN(4)), n.boot)
	return true
}

func (e *nemesis) restart() bool {
	n := e.victim()
	if n == nil || n.agent == nil {
		return false
	}
	away := e.some()
	if !e.w.Quiet.has(Depart) && e.leave.IntN(2) == 0 {
		n.agent.depart(uint64(e.leave.ExpFloat64()*float64(4*e.w.Suspect)), away)
		return true
	}
	n.endAgent()
	e.w.after(away, n.startAgent)
	return true
}

func (e *nemesis) pause() bool {
	n, d := e.victim(), e.some()
	if n == nil {
		return false
	}
	e.w.note(every, every, "%s: its agent pauses for %v", n.name, time.Duration(d))
	n.paused = max(n.paused, e.w.now+d)
	return true
}

func (e *nemesis) sleep() bool {
	n, d := e.victim(), e.some()
	if n == nil {
		return false
	}
	if e.w.now < n.stopped {
		return false
	}
	e.w.note(every, every, "%s sleeps for %v", n.name, time.Duration(d))
	if n.alive() && e.still.IntN(2) == 0 && n.stop(d, e.still) {
		e.w.result.Faults[Still]++
	}
	n.asleep = max(n.asleep, e.w.now+d)
	return true
}

func (e *nemesis) partition() bool {
	if e.w.tense() {
		return false
	}
	one, d := e.anyone(), e.some()
	e.w.note(every, every, "%s is cut off for %v", e.w.nameOf(one.addr()), time.Duration(d))
	for other := range endpoint(endpoints) {
		for c := range classes {
			e.w.net.block(c, one, other, d)
			e.w.net.block(c, other, one, d)
		}
	}
	return true
}

func (e *nemesis) oneWay() bool {
	if e.w.tense() {
		return false
	}
	from, to, d := e.anyone(), e.anyone(), e.some()
	e.w.note(every, every, "%s does not reach %s for %v", e.w.nameOf(from.addr()), e.w.nameOf(to.addr()), time.Duration(d))
	for c := range classes {
		e.w.net.block(c, from, to, d)
	}
	return true
}

// severing severs one node after the other, as long as clients have something to do. It waits for the end of one before
// the next: a cluster whose nodes are all severed answers nothing.
func (e *nemesis) severing(lasts uint64) {
	e.w.after(lasts+uint64(e.sever.ExpFloat64()*float64(2*e.w.Every)), func() {
		if e.w.calm {
			return
		}
		lasts := uint64(0)
		if !e.w.tense() {
			lasts = e.parted()
		}
		e.severing(lasts)
	})
}

// parted parts a node from all controllers but, at times, one, by the streams of its agent and the heartbeats of its
// data plane. It ends after the node's lease and its suspicion. parted returns how long it lasts, in
// nanoseconds.
func (e *nemesis) parted() uint64 {
	w := e.w
	n := w.nodes[e.sever.IntN(len(w.nodes))]
	d := uint64((1 + e.sever.ExpFloat64()) * float64(w.Lease+w.SuspectMax))
	heard := endpoint(-1)
	if len(w.controllers) > 1 && e.sever.IntN(3) == 0 {
		heard = w.controllers[e.sever.IntN(len(w.controllers))].endpoint()
	}
	w.note(every, every, "%s is severed from controllers for %v", n.name, time.Duration(d))
	for _, c := range w.controllers {
		for class := range classes {
			if c.endpoint() != heard {
				w.net.block(class, n.endpoint(), c.endpoint(), d)
				w.net.block(class, c.endpoint(), n.endpoint(), d)
			}
		}
	}
	w.result.Faults[Sever]++
	return d
}

// controlCut parts a node from some controllers.
func (e *nemesis) controlCut() bool {
	if e.w.tense() {
		return false
	}
	n, d, direction := e.node(), e.some(), e.rng.IntN(3)
	e.w.note(every, every, "%s and some controllers are parted for %v (%d)", n.name, time.Duration(d), direction)
	for _, c := range e.w.controllers {
		if e.rng.IntN(3) == 0 {
			continue
		}
		if direction != 1 {
			e.w.net.block(control, n.endpoint(), c.endpoint(), d)
		}
		if direction != 2 {
			e.w.net.block(control, c.endpoint(), n.endpoint(), d)
		}
	}
	return true
}

func (e *nemesis) elect() bool {
	return e.w.store.elect(e.controller())
}

func (e *nemesis) crashController() bool {
	c := e.controller()
	if !c.alive {
		return false
	}
	c.crash()
	e.w.after(e.some(), c.start)
	return true
}

func (e *nemesis) pauseController() bool {
	c, d := e.controller(), e.some()
	e.w.note(every, every, "%s pauses for %v", c.name(), time.Duration(d))
	c.paused = max(c.paused, e.w.now+d)
	return true
}

func (e *nemesis) storeAway() bool {
	c, d := e.controller(), e.some()
	e.w.note(every, every, "%s does not reach the store for %v", c.name(), time.Duration(d))
	c.storeAway = max(c.storeAway, e.w.now+d)
	return true
}
