package xdp

import (
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/netcraq/netcraq/wire"
)

// Vacate removes objects as nodes do: their cells are free, and still have their keys.
func (m *Offline) Vacate(keys []wire.Key) {
	m.table.each(func(h *nqObject) {
		if slices.Contains(keys, keyOf(h.Key[:])) {
			h.Shape = 0
			atomic.AddUint64(&m.usage[tableObjects], ^uint64(0))
		}
	})
}

// Reserve counts so many objects more than there are: as many fewer fit into the table.
func (m *Offline) Reserve(objects int) { atomic.AddUint64(&m.usage[tableObjects], uint64(objects)) }

// Hold locks all objects and sessions, as programs on other CPUs would that are at them, or unlocks them again.
func (m *Offline) Hold(held bool) error {
	odd := uint32(0)
	if held {
		odd = 1
	}
	m.table.each(func(h *nqObject) { h.Seq = h.Seq&^1 | odd })
	var key nqSessionKey
	var entry nqSession
	changed := make(map[nqSessionKey]nqSession)
	all := m.objects.Sessions.Iterate()
	for all.Next(&key, &entry) {
		entry.Lock = entry.Lock&^1 | odd
		changed[key] = entry
	}
	err := all.Err()
	for key, entry := range changed {
		err = errors.Join(err, m.objects.Sessions.Put(key, entry))
	}
	return err
}

// each calls visit with the headers of all objects, while no packet is under way.
func (t *objectTable) each(visit func(h *nqObject)) {
	for i := range t.cells {
		h := (*nqObject)(unsafe.Pointer(&t.cell(i)[0]))
		if h.Shape&shapeUsed != 0 {
			visit(h)
		}
	}
}
