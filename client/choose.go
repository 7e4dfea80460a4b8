package client

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// exploreOneIn is how many reads go to the nearest node for one that goes to a random node, to measure it again.
const exploreOneIn = 256

// choose returns the place in the chain of the node that the next attempt asks.
func (k *call) choose() (int, error) {
	if k.kind.IsWrite() {
		return k.chooseWriter(), nil
	}
	if k.tried&k.route.serving == k.route.serving {
		k.tried = 0
	}
	first, from := k.tried == 0, k.from()
	switch {
	case from.policy == named:
		return k.chooseNamed(from.name)
	case from.policy == tail && first:
		return len(k.route.members) - 1, nil
	case from.policy == nearest && !(first && rand.Uint32N(exploreOneIn) == 0):
		return k.chooseNearest(), nil
	}
	return k.chooseRandom(), nil
}

// chooseWriter asks the head, which orders writes (W1). Every second retry goes to another node, which passes it on:
// the client's own path to the head may be broken.
func (k *call) chooseWriter() int {
	if misses := int(k.recent.misses); misses > 0 && misses%2 == 0 {
		return (misses / 2) % len(k.route.members)
	}
	return 0
}

func (k *call) chooseNamed(node string) (int, error) {
	for i, m := range k.route.members {
		if m.name == node {
			return i, nil
		}
	}
	if k.route.view.nodes[node] == nil {
		return 0, fmt.Errorf("%w: there is no node %q in the cluster", ErrBadRequest, node)
	}
	return 0, fmt.Errorf("%w: node %s is not in the chain of this key's shard %d", ErrBadRequest, node, k.shard)
}

// chooseNearest starts to look at a random place, so that clients without measurements spread over the chain.
func (k *call) chooseNearest() int {
	best, bestRTT := -1, int64(0)
	chain := k.route.members
	start := rand.IntN(len(chain))
	for n := range chain {
		i := (start + n) % len(chain)
		if k.untried()&(1<<i) == 0 {
			continue
		}
		if rtt := chain[i].near.rtt.Load(); best < 0 || rtt < bestRTT {
			best, bestRTT = i, rtt
		}
	}
	return best
}

func (k *call) chooseRandom() int {
	left := k.untried()
	for range rand.IntN(bits.OnesCount8(left)) {
		left &= left - 1
	}
	return bits.TrailingZeros8(left)
}

// untried are the members that a read may ask next; there is one.
func (k *call) untried() uint8 { return k.route.serving &^ k.tried }
