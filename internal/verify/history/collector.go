package history

import (
	"maps"
	"math"
	"slices"
	"sync"
)

// collector sorts operations by the generation of their keys, and knows which generations no client can add to any more.
type collector struct {
	advanced chan struct{} // holds something when a client has moved on

	mu      sync.Mutex
	at      []int // the generation that each client works on
	buckets map[int][]Op
}

func newCollector(clients int) *collector {
	return &collector{advanced: make(chan struct{}, 1), at: make([]int, clients), buckets: make(map[int][]Op)}
}

// enter notes the generation of a client's next operation, which is never below that of its last.
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

// leave notes that a client has ended.
func (k *collector) leave(client int) { k.enter(client, math.MaxInt) }

func (k *collector) add(generation int, op Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.buckets[generation] = append(k.buckets[generation], op)
}

// take removes the operations of the generations that no client works on any more.
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
