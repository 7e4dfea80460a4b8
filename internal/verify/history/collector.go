package history

import (
	"maps"
	"math"
	"slices"
	"sync"
)

// collector groups operations by the generation of their keys. It tracks which generations are
// complete because no client works on them any more.
type collector struct {
	advanced chan struct{} // signalled when a client moves to a later generation

	mu      sync.Mutex
	at      []int // current generation of each client
	buckets map[int][]Op
}

func newCollector(clients int) *collector {
	return &collector{advanced: make(chan struct{}, 1), at: make([]int, clients), buckets: make(map[int][]Op)}
}

// enter records the generation of a client's next operation, which never decreases.
func (k *collector) enter(client, generation int) {
	k.mu.Lock()
	moved := generation > k.at[client]
	k.at[client] = generation
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

func (k *collector) add(generation int, op Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.buckets[generation] = append(k.buckets[generation], op)
}

// take removes and returns the operations of complete generations.
func (k *collector) take() [][]Op {
	k.mu.Lock()
	defer k.mu.Unlock()
	var closed [][]Op
	for _, generation := range slices.Sorted(maps.Keys(k.buckets)) {
		if generation < slices.Min(k.at) {
			closed = append(closed, k.buckets[generation])
			delete(k.buckets, generation)
		}
	}
	return closed
}
