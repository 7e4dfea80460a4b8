package p4runtime

import (
	"math/bits"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// reconcile gives a pipeline what the one that runs holds, and then its ports. If something has no place in it, the one
// that runs goes on.
func (s *Server) reconcile(p *running) error {
	if old := s.active; old != nil {
		if err := old.engine.Pause(true); err != nil {
			return engineError(err)
		}
		err := p.take(old)
		if err != nil {
			if free := old.engine.Pause(false); free != nil {
				return engineError(free)
			}
			return err
		}
	}
	return s.run(p)
}

// take copies tables, counters and registers, while no frame changes them.
func (p *running) take(old *running) error {
	changes, errs := p.plan(old.state.updates())
	for _, err := range errs {
		if err != nil {
			return invalid("a table cannot be kept: %v", err)
		}
	}
	arrays := [][2][]*array{
		{old.state.pipe.counters, p.state.pipe.counters}, {old.state.pipe.registers, p.state.pipe.registers},
	}
	for _, kind := range arrays {
		for _, a := range kind[0] {
			c, err := old.copyOf(a, arrayOf(kind[1], a.id))
			if err != nil {
				return err
			}
			changes = append(changes, c)
		}
	}
	if err := p.commit(changes...); err != nil {
		return invalid("the new pipeline refuses what the present one holds: %v", err)
	}
	return nil
}

// updates make what the state holds in an empty one.
func (s *state) updates() []*p4v1.Update {
	var all []*p4v1.Update
	add := func(kind p4v1.Update_Type, t *table, e *entry, isDefault bool) {
		m := e.message(t)
		m.IsDefaultAction = isDefault
		all = append(all, &p4v1.Update{Type: kind, Entity: &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: m}}})
	}
	for _, t := range s.pipe.tables {
		for _, e := range s.entries[t] {
			add(p4v1.Update_INSERT, t, e, false)
		}
		if e := s.defaults[t]; e != nil && e != t.original {
			add(p4v1.Update_MODIFY, t, e, true)
		}
	}
	return all
}

// copyOf reads what is not zero in an array, for the array of a new pipeline; nil: it has none.
func (p *running) copyOf(from, to *array) (change, error) {
	var r p4.Request
	values := make(map[int]uint64)
	r.Scan(from.name, 0, from.size, func(i int, v uint64) { values[i] = v })
	if err := p.engine.Do(&r); err != nil {
		return none, engineError(err)
	}
	for i, v := range values {
		if to == nil || i >= to.size || bits.Len64(v) > to.bits {
			return none, invalid("array %s holds %#x at %d, which has no place in the new pipeline", from.name, v, i)
		}
	}
	return change{undo: none.undo, add: func(r *p4.Request) {
		for i, v := range values {
			r.Write(to.name, i, v)
		}
	}}, nil
}
