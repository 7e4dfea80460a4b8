package progress

import (
	"sync"
	"sync/atomic"
)

// Mark is the newest revision of a store that is known.
type Mark struct {
	revision atomic.Int64
	mu       sync.Mutex
	moved    chan struct{} // closed when the revision rises; nil: nobody waits
}

// Raise notes a revision of the store.
func (m *Mark) Raise(revision int64) {
	if revision <= m.revision.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision <= m.revision.Load() {
		return
	}
	m.revision.Store(revision)
	if m.moved != nil {
		close(m.moved)
		m.moved = nil
	}
}

// Newest is a [Newest].
func (m *Mark) Newest() (revision int64, moved <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(chan struct{})
	}
	return m.revision.Load(), m.moved
}
