package history

import (
	"maps"
	"math"
	"slices"
	"sync"
)

// collector groups operations by key set: the keys that clients use at one time. It tracks which key sets are
// complete because no client works on them any more.
type collector struct {
	advanced chan struct{} // signalled when a client moves to a later key set

	mu      sync.Mutex
	at      []int // current key set of each client
	buckets map[int][]Op
}

func newCollector(clients int) *collector {
	return &collector{advanced: make(chan struct{}, 1), at: make([]int, clients), buckets: make(map[int][]Op)}
}

// enter records the key set of a client's next operation, which never decreases.
func (k *collector) enter(client, keySet int) {
	k.mu.Lock()
	moved := keySet > k.at[client]
	k.at[client] = keySet
	k.mu.Unlock()
	if moved {
		select {
		case k.advanced <- struct{}{}:
		default:
		}
	}
}

// leave records that a client has ended.
func (k *collector) leave(client int) { k.enter(client, math.MaxInt) }

func (k *collector) add(keySet int, op Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.buckets[keySet] = append(k.buckets[keySet], op)
}

// take removes and returns the operations of complete key sets.
func (k *collector) take() [][]Op {
	k.mu.Lock()
	defer k.mu.Unlock()
	var closed [][]Op
	for _, keySet := range slices.Sorted(maps.Keys(k.buckets)) {
		if keySet < slices.Min(k.at) {
			closed = append(closed, k.buckets[keySet])
			delete(k.buckets, keySet)
		}
	}
	return closed
}
