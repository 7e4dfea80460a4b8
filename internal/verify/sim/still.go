package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// stop lets the clock stand still for d, as a hypervisor does with a machine that it pauses. It reports false where no
// controller could tell the node of it afterwards. H4 promises nothing until a heartbeat arrives that was sent after
// the pause began, nor among clocks that drift apart as fast as those of Drift.
func (n *node) stop(d uint64, rng *rand.Rand) bool {
	w := n.w
	if !w.Quiet.has(Drift) || w.Quiet.has(Still) || n.clock.start <= d {
		return false
	}
	controllers := w.controllers
	first := rng.IntN(len(controllers))
	for i := range controllers {
		c := controllers[(first+i)%len(controllers)]
		id, h := c.heartOf(n)
		if h == nil {
			continue
		}
		n.clock.start -= d
		n.stopped = w.now + d
		incarnation, process := n.incarnation, c.process
		w.note(every, every, "%s: its clock stands still", n.name)
		w.after(d, func() {
			if n.up && n.incarnation == incarnation {
				n.goOn(d, c, process, id, h)
			}
		})
		return true
	}
	return false
}

// heartOf is a controller's state of a node's plane that has answered it.
func (c *controller) heartOf(n *node) (reconfig.NodeID, *heart) {
	if !c.alive {
		return 0, nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.hearts)) {
		if h := c.hearts[id]; h.n == n && h.key == n.heart.Key && h.incarnation == n.incarnation && h.answered > 0 {
			return id, h
		}
	}
	return 0, nil
}

// goOn ends a pause. A heartbeat of the controller is the first message that the node gets. If the controller is
// another process by then, the hypervisor sets the clock.
func (n *node) goOn(d uint64, c *controller, process uint64, id reconfig.NodeID, h *heart) {
	n.stopped = 0
	if now, found := c.heartOf(n); c.process != process || found != h || now != id {
		n.clock.start += d
		n.w.note(every, every, "%s: its clock is set, %v ahead", n.name, time.Duration(d))
		return
	}
	n.receive(c.next(id, h), false)
	for shard := range uint16(n.w.Shards) {
		n.w.watch.checkReader(n, shard)
	}
}
