package client

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// exploreOneIn is how many reads go to the nearest node for one that goes to a random node, to measure it again.
const exploreOneIn = 256

// choose returns the place in the chain of the node that the next attempt asks.
func (k *call) choose(chain []*member) (int, error) {
	if bits.OnesCount8(k.tried) == len(chain) {
		k.tried = 0
	}
	first := k.tried == 0
	switch {
	case k.op.IsWrite():
		return k.chooseWriter(chain), nil
	case k.from.policy == named:
		return k.chooseNamed(chain)
	case k.from.policy == tail && first:
		return len(chain) - 1, nil
	case k.from.policy == nearest && !(first && rand.Uint32N(exploreOneIn) == 0):
		return k.chooseNearest(chain), nil
	}
	return k.chooseRandom(chain), nil
}

// chooseWriter asks the head, which orders writes (W1). Every second retry goes to another node, which passes it on: the
// client's own way to the head may be what is broken.
func (k *call) chooseWriter(chain []*member) int {
	if k.misses > 0 && k.misses%2 == 0 {
		return (k.misses / 2) % len(chain)
	}
	return 0
}

func (k *call) chooseNamed(chain []*member) (int, error) {
	for i, m := range chain {
		if m.name == k.from.name {
			return i, nil
		}
	}
	if k.view.nodes[k.from.name] == nil {
		return 0, fmt.Errorf("%w: there is no node %q in the cluster", ErrBadRequest, k.from.name)
	}
	return 0, fmt.Errorf("%w: node %s is not in the chain of this key's shard %d", ErrBadRequest, k.from.name, k.view.shard(k.key))
}

// chooseNearest starts to look at a random place, so that clients who have not measured yet spread over the chain.
func (k *call) chooseNearest(chain []*member) int {
	best, bestRTT := 0, int64(-1)
	start := rand.IntN(len(chain))
	for n := range chain {
		i := (start + n) % len(chain)
		if rtt := chain[i].rtt.Load(); k.tried&(1<<i) == 0 && (bestRTT < 0 || rtt < bestRTT) {
			best, bestRTT = i, rtt
		}
	}
	return best
}

func (k *call) chooseRandom(chain []*member) int {
	n := rand.IntN(len(chain) - bits.OnesCount8(k.tried))
	for i := range chain {
		if k.tried&(1<<i) != 0 {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return 0
}
