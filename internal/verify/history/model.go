package history

import "encoding/binary"

// counterBytes is the length of a value that Add accepts.
const counterBytes = 8

// state is the state of one key in the model, a register with versions. Every write increases the version, possibly by
// more than one: a write that was ordered and then overtaken leaves a gap. A deleted key may be forgotten at any time:
// then answers have version 0, but the next write's is above all before.
type state struct {
	value   string
	present bool
	version uint64
	// above: the last write had an unknown outcome, so the version is greater than this one.
	above bool
}

// step returns the state after op, and whether op's result is possible in s. An operation of
// unknown outcome is always possible and takes effect if it can. If it never took effect, it is
// ordered last.
func (s state) step(op *Op) (state, bool) {
	switch op.Kind {
	case Get:
		return s.get(op)
	case Put:
		return s.write(op, op.Value, true)
	case Delete:
		return s.write(op, "", false)
	case CAS:
		return s.cas(op)
	default:
		return s.add(op)
	}
}

// observe returns the state with its version known to be v.
func (s state) observe(v uint64) (state, bool) {
	if s.above {
		ok := v > s.version
		s.version, s.above = v, false
		return s, ok
	}
	return s, s.version == v
}

func (s state) get(op *Op) (state, bool) {
	if op.Outcome == Unknown {
		return s, true
	}
	if op.Outcome == NotFound && op.Version == 0 && !s.present {
		return s, true
	}
	s, ok := s.observe(op.Version)
	if op.Outcome == NotFound {
		return s, ok && !s.present
	}
	return s, ok && s.present && s.value == op.Read
}

// write returns the state after a write that takes effect.
func (s state) write(op *Op, value string, present bool) (state, bool) {
	ok := true
	switch op.Outcome {
	case Unknown:
		if s.above {
			s.version++
		}
		s.above = true
	default:
		ok = op.Outcome == OK && op.Version > s.version
		s.version, s.above = op.Version, false
	}
	s.value, s.present = value, present
	return s, ok
}

func (s state) cas(op *Op) (state, bool) {
	if op.Outcome == Failed && op.Version == 0 && !s.present {
		return s, op.Expected != 0
	}
	if op.Outcome == Failed {
		s, ok := s.observe(op.Version)
		told := op.NoValue || s.value == op.Read
		return s, ok && told && op.Version != op.Expected && (op.Expected != 0 || s.present)
	}
	matched := op.Expected == 0 && !s.present
	if !matched {
		var after state
		if after, matched = s.observe(op.Expected); matched {
			s = after
		}
	}
	if !matched {
		return s, op.Outcome == Unknown
	}
	return s.write(op, op.Value, true)
}

func (s state) add(op *Op) (state, bool) {
	n, isCounter := counter(s.value)
	isCounter = isCounter || !s.present
	if op.Outcome == NotCounter {
		ok := true
		if op.Version != 0 { // version known
			s, ok = s.observe(op.Version)
		}
		return s, ok && !isCounter
	}
	if !isCounter {
		return s, op.Outcome == Unknown
	}
	value := string(binary.BigEndian.AppendUint64(nil, n+op.Delta))
	if op.Outcome == OK && op.Read != value {
		return s, false
	}
	return s.write(op, value, true)
}

func counter(v string) (uint64, bool) {
	if len(v) != counterBytes {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(v)), true
}
