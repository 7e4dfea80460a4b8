package reconfig

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Two steps make tombstones collectable without a pause (G2). First the floor rises: heads give new versions above it.
// When the head reports that everything below is committed on the whole chain, the bar rises to the floor: members
// collect tombstones up to it, and take UPDATEs up to it for late ones.

// raiseFrom is the number of tombstones in a shard from which the floor rises, unless tables fill up.
const raiseFrom = 64

// lineageVersions is the distance of two lineages' versions: no object gets that many versions in one lineage.
const lineageVersions = 1 << 40

// NextLineage returns the floor of the lineage after one with the given floor. It is above every version of that lineage,
// which may be known to clients though all copies are gone.
func NextLineage(floor uint64) uint64 { return (floor/lineageVersions + 1) * lineageVersions }

// maxFloor bounds floors that operators ask for: versions have to grow above it.
const maxFloor = 1 << 62

// restoresBegin is the time from which floors of restored clusters count, and restoreEvery the least time between two
// restores: 2^24 of them, each with 2^40 versions, last for 31 years.
var restoresBegin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

const restoreEvery = time.Minute

// RestoredFloor returns the floor for a cluster into which a backup of another lineage is restored (G7). It is above the
// highest version in the backup and above what that lineage gave later, and so above what any restore gave that began a
// minute earlier, of whatever backup.
func RestoredFloor(highest uint64, now time.Time) uint64 {
	if highest > maxFloor {
		return math.MaxUint64 // no cluster takes it
	}
	return max(NextLineage(highest), uint64(max(0, now.Sub(restoresBegin)/restoreEvery))*lineageVersions)
}

// checkFloor refuses a floor while a shard changes, has members that do not know its present floor, or a member that
// takes none. So a repetition that is not refused shows that all heads give versions above the floor.
func (l *Leader) checkFloor(floor uint64) error {
	if floor > maxFloor {
		return fmt.Errorf("a floor of %d leaves no room for versions: at most %d", floor, uint64(maxFloor))
	}
	for i := range l.state.Shards {
		switch number := uint16(i); {
		case len(l.state.Shards[i].Members) == 0:
			return fmt.Errorf("shard %d has no chain: let nodes join, or accept its loss", number)
		case !l.mayRaise(number):
			return fmt.Errorf("shard %d is changing, or a node of it takes no floors (an older release, a P4 switch): "+
				"try again", number)
		}
	}
	return nil
}

// hasFloor reports whether no shard has a lower floor.
func (l *Leader) hasFloor(floor uint64) bool {
	return !slices.ContainsFunc(l.state.Shards, func(s Shard) bool { return s.Floor < floor })
}

// Swept handles a node's report of its tombstones.
func (l *Leader) Swept(now time.Duration, s Sweep) {
	n := l.nodes[s.Node]
	if !l.begin(now) || n == nil || !l.lives(n, s.Incarnation) {
		return
	}
	n.sweeps, n.pressing = true, s.Pressing
	for i := range s.Shards {
		l.tombstones(n, &s.Shards[i])
	}
	l.step()
}

// tombstones decides by the report of a shard's head whether its floor or its bar has to rise.
func (l *Leader) tombstones(n *node, t *Tombstones) {
	if int(t.Shard) >= len(l.shards) {
		return
	}
	s := &l.state.Shards[t.Shard]
	if t.Epoch != s.Epoch || len(s.Members) == 0 || s.Members[0] != n.id {
		return
	}
	switch {
	case s.Floor > s.Bar && t.Drained == s.Floor && l.mayRaise(t.Shard):
		l.bars[t.Shard], l.dirty = true, true
	case t.Highest > s.Floor && (l.pressing(s) || t.Count >= raiseFrom && l.whole(s)) && s.Floor == s.Bar && l.mayRaise(t.Shard):
		l.floors[t.Shard], l.dirty = t.Highest, true
	}
}

// pressing reports whether tombstones fill the table of a member.
func (l *Leader) pressing(s *Shard) bool {
	return slices.ContainsFunc(s.Members, func(id NodeID) bool { return l.nodes[id].pressing })
}

// whole reports whether a shard has all members. Otherwise one may come back that kept its copy: that copy is of no use
// after the bar has risen (G5), so it rises only if tables fill up.
func (l *Leader) whole(s *Shard) bool { return fullMembers(s) >= l.members(s) }

// mayRaise reports whether no change of a shard's chain is under way, all members know the present floor, and none waits
// for an agent that is away.
func (l *Leader) mayRaise(number uint16) bool {
	s := &l.state.Shards[number]
	for _, id := range s.Members {
		if !l.nodes[id].sweeps {
			return false
		}
	}
	return l.rests(number) && l.confirmed(number, s.Members) && l.agentsReady(number)
}

// raise makes floors and bars durable that are to rise. A report holds for the epoch in which it was made: a shard that
// changes now waits for other reports.
func (d *draft) raise() {
	l := d.l
	for _, number := range sorted(l.floors) {
		if s := &l.state.Shards[number]; !d.touched(number) && s.Floor < l.floors[number] && l.mayRaise(number) {
			d.shard(number).Floor = l.floors[number]
			if l.options.Without&G2 != 0 {
				d.raiseBar(number)
			}
		}
	}
	for _, number := range sorted(l.bars) {
		if !d.touched(number) && l.mayRaise(number) {
			d.raiseBar(number)
		}
	}
	clear(l.floors)
	clear(l.bars)
}

func (d *draft) raiseBar(number uint16) {
	s := d.shard(number)
	s.Bar, s.Swept = s.Floor, s.Epoch
}

// usefulSince returns the epoch since which a node's kept copy of a shard is of use (C9, G5); 0: none is.
func (l *Leader) usefulSince(number uint16) uint32 {
	s := &l.state.Shards[number]
	if s.Born == 0 || l.options.Without&G5 != 0 {
		return s.Born
	}
	return max(s.Born, s.Swept)
}
