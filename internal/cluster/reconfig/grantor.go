package reconfig

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// driftMargin is how much longer than granted a lease may last, as a divisor: a tenth, for clocks that run 5 % apart from true time at
// either end.
const driftMargin = 10

// Grantor gives leases on behalf of one controller. It knows no leader; it applies the changes of the state in the order in
// which they were stored.
type Grantor struct {
	self     string // the controller's address
	settings Settings
	without  Rule
	applied  uint64
	// Of the set of controllers.
	counts   bool // whether it is a member
	majority int
	setID    uint32
	nodes    map[NodeID]standing
	floor    time.Duration // end of all grants of an earlier process of this controller
	until    map[NodeID]time.Duration
	contacts map[NodeID]*contact
}

// contact holds the pauses between a node's heartbeats, the grantor's own pauses included. A grant has to bridge them.
type contact struct {
	incarnation uint64
	last        time.Duration
	pauses      pauses
}

type standing struct {
	incarnation uint64
	standing    Standing
}

// NewGrantor returns the grantor of the controller at an address, from the stored state. without is zero outside tests.
func NewGrantor(s *State, self string, now time.Duration, without Rule) *Grantor {
	g := &Grantor{
		self: self, settings: s.Settings, floor: now + lasts(s.Settings.longest()), without: without,
		until: make(map[NodeID]time.Duration), contacts: make(map[NodeID]*contact),
	}
	g.Load(s)
	return g
}

// SetIDOf returns a number that identifies a set of controllers.
func SetIDOf(controllers []string) uint32 {
	h := fnv.New32a()
	for _, address := range slices.Sorted(slices.Values(controllers)) {
		fmt.Fprintf(h, "%s\n", address)
	}
	return h.Sum32()
}

// lasts returns the longest time that a grant may last on another clock.
func lasts(lease time.Duration) time.Duration { return lease + lease/driftMargin }

// Load replaces the state by a complete one, which is not older than the last change applied.
func (g *Grantor) Load(s *State) {
	g.applied, g.settings = s.Change, s.Settings
	g.count(&s.Controllers)
	g.nodes = make(map[NodeID]standing, len(s.Nodes))
	for id, n := range s.Nodes {
		g.nodes[id] = standing{n.Incarnation, n.Standing}
	}
}

// Apply applies the next change.
func (g *Grantor) Apply(c Change) {
	for i := range c.Nodes {
		g.nodes[c.Nodes[i].ID] = standing{c.Nodes[i].Incarnation, c.Nodes[i].Standing}
	}
	if c.Times != (Times{}) { // grants given before go on as they were given
		g.settings.SetTimes(c.Times)
	}
	if c.Controllers.Since != 0 {
		g.count(&c.Controllers)
	}
	g.applied = c.Number
}

// count makes grants those of a set of controllers. Grants given before go on as those of the set before. A controller that
// is no member grants nothing: nodes would count it as one.
func (g *Grantor) count(s *ControllerSet) {
	g.counts, g.majority, g.setID = s.Has(g.self), s.Majority(), s.ID()
}

// Heartbeat answers a node's heartbeat, and reports whether there is an answer: a node that is not in good standing
// gets none, and neither does a heartbeat without a stamp.
func (g *Grantor) Heartbeat(now time.Duration, b Heartbeat) (Grant, bool) {
	if b.Stamp == 0 {
		return Grant{}, false
	}
	lease := g.lease(now, b.Node, b.Incarnation)
	if !g.Grants(b.Node, b.Incarnation) {
		return Grant{}, false
	}
	g.until[b.Node] = max(g.until[b.Node], now+lasts(lease))
	return Grant{Stamp: b.Stamp, Lease: lease, Majority: g.majority, SetID: g.setID}, true
}

// Grants reports whether a node gets grants.
func (g *Grantor) Grants(id NodeID, incarnation uint64) bool {
	n, ok := g.nodes[id]
	return ok && g.counts && !n.standing.Fenced() && n.incarnation == incarnation
}

// Knows reports whether a node is in the cluster, in good standing or not.
func (g *Grantor) Knows(id NodeID, incarnation uint64) bool {
	n, ok := g.nodes[id]
	return ok && n.standing != Removed && n.incarnation == incarnation
}

// lease returns the duration of a grant to a node that asks now.
func (g *Grantor) lease(now time.Duration, id NodeID, incarnation uint64) time.Duration {
	h := g.contacts[id]
	if h == nil || h.incarnation != incarnation {
		h = &contact{incarnation: incarnation, last: now}
		g.contacts[id] = h
	}
	h.pauses.observe(now, now-h.last, pauseMargin*max(g.settings.Lease, g.settings.LeaseMax))
	h.last = max(h.last, now)
	return bridge(h.pauses.left(now), g.settings.Lease, g.settings.LeaseMax)
}

// LeaseLeft returns how long from now the grants to some nodes may last. applied is false until the change is applied.
// The answer does not hold for nodes that still get grants.
func (g *Grantor) LeaseLeft(now time.Duration, change uint64, nodes []NodeID) (left time.Duration, applied bool) {
	if change > g.applied {
		return 0, false
	}
	until := g.floor
	for _, id := range nodes {
		until = max(until, g.until[id])
	}
	if g.without&L5 != 0 {
		until = min(until, now+lasts(max(g.settings.Lease, g.settings.LeaseMax)))
	}
	return max(0, until-now), true
}
