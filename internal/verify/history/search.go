package history

import "github.com/anishathalye/porcupine"

// search is the state of the search for an order of one key's operations. An operation of unknown outcome may be ordered
// last, as if it never took effect. So the search orders one before the last known operation only where that can
// explain a later result:
//
//   - it changes the state, and not only the bound of an unknown version: a higher bound allows less;
//   - no Put or Delete comes right behind it.
//
// An order that breaks one of these stays valid if the operation moves to the end. So every linearizable history has an
// order that the search finds, and the search does not try all subsets of the unknown operations.
type search struct {
	state
	known  int  // known operations ordered so far
	unseen bool // the last operation is a write of unknown outcome
}

// newModel returns the model of a key whose history has so many operations of known outcome.
func newModel(known int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return search{} },
		Step: func(s, input, _ any) (bool, any) {
			op := input.(Op)
			next, ok := s.(search).step(&op, known)
			return ok, next
		},
	}
}

// step returns the search's state after op, and whether op may come next.
func (s search) step(op *Op, known int) (search, bool) {
	if op.Outcome == Unknown && s.known == known {
		return s, true
	}
	if s.unseen && (op.Kind == Put || op.Kind == Delete) {
		return s, false
	}
	next, ok := s.state.step(op)
	if op.Outcome == Unknown {
		return search{next, s.known, true}, !next.needless(s.state)
	}
	return search{next, s.known + 1, false}, ok
}

// needless reports whether every result that is possible in s is possible in the state before, too.
func (s state) needless(before state) bool {
	return s == before || before.above && s.value == before.value && s.present == before.present
}
