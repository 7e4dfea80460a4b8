package history

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestSearchAgreesWithTheModel compares verdicts with those of a search without shortcuts, on random histories of one
// key. Most of the histories have a wrong result in them.
func TestSearchAgreesWithTheModel(t *testing.T) {
	const seed, histories = 1, 20_000
	plain := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			op := input.(Op)
			next, ok := s.(state).step(&op)
			return ok, next
		},
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	possible := 0
	for i := range histories {
		ops := randomHistory(rng, 3+rng.IntN(7))
		if rng.IntN(8) != 0 {
			corrupt(rng, &ops[rng.IntN(len(ops))])
		}
		want := porcupine.CheckOperationsTimeout(plain, operations(ops), time.Minute)
		v := Check(ops, time.Minute)
		if v.Linearizable() != (want == porcupine.Ok) {
			var report strings.Builder
			for _, op := range ops {
				report.WriteString(op.String() + "\n")
			}
			t.Fatalf("seed %d, history %d: linearizable = %v, want %s\n%s", seed, i, v.Linearizable(), want, report.String())
		}
		if want == porcupine.Ok {
			possible++
		}
	}
	if possible < histories/4 || possible > histories*3/4 {
		t.Errorf("seed %d: %d of %d histories are linearizable: too few of a kind", seed, possible, histories)
	}
}

// operations returns the operations of one key for the search. Reads of unknown outcome say nothing and are left out.
func operations(ops []Op) []porcupine.Operation {
	var list []porcupine.Operation
	for _, op := range ops {
		if op.Outcome == Unknown {
			op.Return = 1 << 40
		}
		if op.Outcome != Unknown || op.Kind != Get {
			list = append(list, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Return})
		}
	}
	return list
}

// randomHistory returns what overlapping clients see of a register. A third of its operations has an unknown outcome;
// of those, a half takes effect.
func randomHistory(rng *rand.Rand, n int) []Op {
	var s state
	ops := make([]Op, n)
	for i := range ops {
		at := int64(i+1) * 100
		op := &ops[i]
		*op = Op{Client: i, Key: "k", Kind: Kind(rng.IntN(5)), Call: at - rng.Int64N(250), Return: at + rng.Int64N(250)}
		op.Value = string(binary.BigEndian.AppendUint64(nil, uint64(rng.IntN(3))))[rng.IntN(2)*4:]
		op.Expected, op.Delta = uint64(rng.IntN(5)), uint64(1+rng.IntN(2))
		unknown := rng.IntN(3) == 0
		if !unknown || rng.IntN(2) == 0 {
			s = perform(rng, s, op)
		}
		if unknown {
			op.Result = Result{}
		}
	}
	return ops
}

// perform applies op to a register that knows its version, and sets its result.
func perform(rng *rand.Rand, s state, op *Op) state {
	version := s.version + 1 + rng.Uint64N(2)
	write := func(value string, present bool) state {
		op.Outcome, op.Version = OK, version
		return state{value: value, present: present, version: version}
	}
	n, isCounter := counter(s.value)
	switch {
	case op.Kind == Get && s.present:
		op.Result = Result{Outcome: OK, Version: s.version, Read: s.value}
	case op.Kind == Get:
		op.Result = Result{Outcome: NotFound, Version: s.version * rng.Uint64N(2)}
	case op.Kind == Put:
		return write(op.Value, true)
	case op.Kind == Delete:
		return write("", false)
	case op.Kind == CAS && (op.Expected == 0 && !s.present || op.Expected == s.version):
		return write(op.Value, true)
	case op.Kind == CAS:
		op.Result = Result{Outcome: Failed, Version: s.version, Read: s.value}
	case s.present && !isCounter:
		op.Result = Result{Outcome: NotCounter, Version: s.version}
	default:
		op.Read = string(binary.BigEndian.AppendUint64(nil, n+op.Delta))
		return write(op.Read, true)
	}
	return s
}

// corrupt changes a result.
func corrupt(rng *rand.Rand, op *Op) {
	switch rng.IntN(3) {
	case 0:
		op.Version += 1 + rng.Uint64N(2)
	case 1:
		op.Version -= min(op.Version, 1+rng.Uint64N(2))
	default:
		op.Read = string(binary.BigEndian.AppendUint64(nil, uint64(rng.IntN(5))))
	}
}

// TestManyUnknownWrites decides a history that took longer than any limit when the search tried all subsets of the
// unknown operations.
func TestManyUnknownWrites(t *testing.T) {
	ops := []Op{op(1, 2, Put, Op{Value: "a"}, OK, 1)}
	for i := range int64(40) {
		ops = append(ops, op(3+i, 0, Kind(1+i%2), Op{Value: string(rune('b' + i))}, Unknown, 0))
	}
	ops = append(ops, read(50, 51, "b", 7), read(52, 53, "d", 9), read(54, 55, "b", 11))
	v := Check(ops, time.Minute)
	if len(v.Undecided) != 0 || v.Linearizable() {
		t.Errorf("undecided %v, linearizable %v, want a violation", v.Undecided, v.Linearizable())
	}
}
