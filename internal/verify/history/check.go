package history

import (
	"math"
	"runtime"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"
)

// Violation is a key whose history is not possible in a linearizable store.
type Violation struct {
	Key string
	Ops []Op // operations on that key by time of call
	// Order is the longest explainable sequence of operations, as indices into Ops.
	Order []int
}

// Verdict is the result of a check.
type Verdict struct {
	Ops, Keys, Unknown int
	Violations         []Violation
	Undecided          []string // keys whose check exceeded its time
}

// Linearizable reports whether the check found an order for every key.
func (v *Verdict) Linearizable() bool { return len(v.Violations) == 0 && len(v.Undecided) == 0 }

// Check checks a history. It gives up on a key after the given time.
func Check(ops []Op, perKey time.Duration) *Verdict {
	v := &Verdict{Ops: len(ops)}
	keys := map[string][]Op{}
	for _, op := range ops {
		if op.Outcome == Unknown {
			v.Unknown++
			if op.Kind == Get {
				continue
			}
		}
		keys[op.Key] = append(keys[op.Key], op)
	}
	v.Keys = len(keys)
	names := sortedKeys(keys)
	verdicts := make([]Verdict, len(names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		group.Go(func() error {
			verdicts[i].checkKey(name, keys[name], perKey)
			return nil
		})
	}
	_ = group.Wait() // no error: violations are in the verdict
	for _, one := range verdicts {
		v.Violations = append(v.Violations, one.Violations...)
		v.Undecided = append(v.Undecided, one.Undecided...)
	}
	return v
}

func sortedKeys(keys map[string][]Op) []string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (v *Verdict) checkKey(key string, ops []Op, limit time.Duration) {
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	list, known := make([]porcupine.Operation, len(ops)), 0
	for i, op := range ops {
		end := op.Return
		if op.Outcome == Unknown {
			end = math.MaxInt64
		} else {
			known++
		}
		list[i] = porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end}
	}
	model := newModel(known)
	switch porcupine.CheckOperationsTimeout(model, list, limit) {
	case porcupine.Unknown:
		v.Undecided = append(v.Undecided, key)
	case porcupine.Illegal:
		_, info := porcupine.CheckOperationsVerbose(model, list, limit)
		var longest []int
		for _, partition := range info.PartialLinearizations() {
			for _, order := range partition {
				if len(order) > len(longest) {
					longest = order
				}
			}
		}
		v.Violations = append(v.Violations, Violation{key, ops, longest})
	}
}
