package reconfig

import (
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

func (w *world) asTime(ns uint64) time.Duration { return time.Duration(ns) }

func (w *world) at(addr netip.AddrPort) *testNode {
	i := slices.IndexFunc(w.nodes, func(n *testNode) bool { return n.reg.Addr == addr })
	return w.nodes[i]
}

// write writes to a shard: down the chain of every node that is configured as the head, as far as possible. A write that all
// members of a chain have is acknowledged.
func (w *world) write(shard uint16) {
	for _, head := range w.nodes {
		c := head.configs[shard]
		if !head.powered || c.State != chain.Active || c.Self != 0 {
			continue
		}
		w.writes++
		through := true
		for place, addr := range c.Members {
			n := w.at(addr)
			if here := n.configs[shard]; !n.powered || here.State != chain.Active || here.Epoch != c.Epoch || here.Self != place {
				through = false
				break
			}
			n.held[shard][w.writes] = true
		}
		if through {
			w.acked[shard] = append(w.acked[shard], w.writes)
			w.writeGap[shard] = max(w.writeGap[shard], w.now-w.wroteAt[shard])
			w.wroteAt[shard] = w.now
		}
	}
}

// check checks S1 to S3 for every answer that a node could give at this moment.
func (w *world) check() {
	for shard := range w.acked {
		w.checkShard(uint16(shard))
	}
}

func (w *world) checkShard(shard uint16) {
	newest := uint32(0) // epoch of which something is active
	for _, n := range w.nodes {
		if c := n.configs[shard]; n.powered && c.State == chain.Active {
			newest = max(newest, c.Epoch)
		}
	}
	stored := &w.state.Shards[shard]
	if newest > stored.Epoch {
		w.fatalf("S1: shard %d is active in epoch %d, and %d is stored", shard, newest, stored.Epoch)
	}
	for _, n := range w.nodes {
		c := n.configs[shard]
		if !n.powered || c.State == chain.None || c.Learner || n.until <= w.now {
			continue
		}
		if c.Epoch < newest {
			w.fatalf("S2: %s could answer for shard %d in epoch %d, which is active in %d", n.reg.Name, shard, c.Epoch, newest)
		}
		if write, missing := n.missing(shard); missing {
			w.fatalf("S3: %s could answer for shard %d in epoch %d, and has not write %d", n.reg.Name, shard, c.Epoch, write)
		}
	}
}

// checkNothingLost checks that the chains as they are stored have all that was acknowledged.
func (w *world) checkNothingLost() {
	w.t.Helper()
	for shard := range w.acked {
		s := &w.state.Shards[shard]
		for _, id := range s.Members {
			if write, missing := w.node(id).missing(uint16(shard)); missing && id != s.Learner {
				w.fatalf("%s is in the chain of shard %d and has not write %d", w.node(id).reg.Name, shard, write)
			}
		}
	}
}

// missing returns an acknowledged write that a node has not.
func (n *testNode) missing(shard uint16) (write int, missing bool) {
	for ; n.verified[shard] < len(n.acked[shard]); n.verified[shard]++ {
		if write := n.acked[shard][n.verified[shard]]; !n.held[shard][write] {
			return write, true
		}
	}
	return 0, false
}
