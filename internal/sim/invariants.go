package sim

import (
	"bytes"
	"fmt"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/wire"
)

// check checks the invariants I1 to I6 of spec/protocol.md in the present state.
func (w *world) check() {
	for _, m := range w.nodes {
		for key, o := range m.node.Objects() {
			w.checkObject(m, key, o)
		}
	}
	if w.settled() {
		for _, key := range w.keys {
			w.checkChain(key)
		}
	}
}

// checkObject is I1 and I2: committed never passes version, and neither goes down.
func (w *world) checkObject(m *member, key wire.Key, o *chain.Object) {
	before := m.seen[key]
	switch {
	case o.Committed > o.Version:
		w.broken(fmt.Errorf("I1: node %d has committed %d of version %d", m.index, o.Committed, o.Version))
	case o.Version < before.Version:
		w.broken(fmt.Errorf("I2: node %d went from version %d to %d", m.index, before.Version, o.Version))
	case o.Committed < before.Committed:
		w.broken(fmt.Errorf("I2: node %d went from committed %d to %d", m.index, before.Committed, o.Committed))
	case o.Version == before.Version && before.Version != 0 && !bytes.Equal(o.Value, before.Value):
		w.broken(fmt.Errorf("I2: node %d changed the value of version %d", m.index, o.Version))
	}
	if o.Version != before.Version || o.Committed != before.Committed {
		c := *o
		c.Value = bytes.Clone(o.Value)
		m.seen[key] = c
	}
}

// settled reports whether no repair is under way, so that all members have the same configuration.
func (w *world) settled() bool { return len(w.repair) == 0 }

// view is one member's copy of an object, zero if it has none.
func (w *world) view(i int, key wire.Key) chain.Object {
	if o := w.nodes[i].node.Objects()[key]; o != nil {
		return *o
	}
	return chain.Object{}
}

// tailView is the tail's copy of an object, all of which is committed (C2).
func (w *world) tailView(key wire.Key) chain.Object {
	o := w.view(w.chain[len(w.chain)-1], key)
	o.Committed = o.Version
	return o
}

// checkChain is I3 to I6, which speak of one key along an active chain.
func (w *world) checkChain(key wire.Key) {
	tail := w.tailView(key)
	if acked := w.acked[key]; tail.Committed < acked {
		w.broken(fmt.Errorf("I6: version %d was answered with OK, but the tail has committed %d", acked, tail.Committed))
	}
	above := chain.Object{Version: ^uint64(0)}
	for place, i := range w.chain {
		o := w.view(i, key)
		switch {
		case o.Version > above.Version:
			w.broken(fmt.Errorf("I4: place %d has version %d, its predecessor %d", place, o.Version, above.Version))
		case o.Committed > tail.Committed:
			w.broken(fmt.Errorf("I3: place %d has committed %d, the tail %d", place, o.Committed, tail.Committed))
		case o.Clean() && (o.Version != tail.Version || !sameValue(&o, &tail)):
			w.broken(fmt.Errorf("I5: place %d has a clean version %d, the tail version %d, or their values differ",
				place, o.Version, tail.Version))
		}
		above = o
	}
}

func sameValue(a, b *chain.Object) bool {
	return a.Tombstone == b.Tombstone && bytes.Equal(a.Value, b.Value)
}

// checkAgreement is I7: once all messages have arrived and the agents had time, the members hold the same, all clean.
func (w *world) checkAgreement() {
	for _, key := range w.keys {
		tail := w.tailView(key)
		for place, i := range w.chain {
			o := w.view(i, key)
			if place == len(w.chain)-1 {
				o = tail
			}
			if !o.Clean() || o.Version != tail.Version || !sameValue(&o, &tail) {
				w.broken(fmt.Errorf("I7: after all has arrived place %d has version %d (committed %d), the tail %d",
					place, o.Version, o.Committed, tail.Version))
			}
		}
	}
}
