package history

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"
)

// memory is a linearizable store with one mutex. If lossy, it forgets every tenth acknowledged
// write.
type memory struct {
	mu     sync.Mutex
	lossy  bool
	writes int
	keys   map[string]*register
}

type register struct {
	version uint64
	value   string
	present bool
}

func (m *memory) Do(_ context.Context, op *Op) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keys[op.Key]
	if r == nil {
		r = new(register)
		m.keys[op.Key] = r
	}
	n, isCounter := counter(r.value)
	switch {
	case op.Kind == Get && !r.present:
		return Result{Outcome: NotFound, Version: r.version}
	case op.Kind == Get:
		return Result{Outcome: OK, Version: r.version, Read: r.value}
	case op.Kind == CAS && op.Expected != r.version && (op.Expected != 0 || r.present):
		return Result{Outcome: Failed, Version: r.version, Read: r.value}
	case op.Kind == Add && r.present && !isCounter:
		return Result{Outcome: NotCounter, Version: r.version}
	}
	value, read := op.Value, ""
	if op.Kind == Add {
		value = string(binary.BigEndian.AppendUint64(nil, n+op.Delta))
		read = value
	}
	version := r.version + 1
	if m.writes++; !m.lossy || m.writes%10 != 0 {
		r.version, r.value, r.present = version, value, op.Kind != Delete
	}
	return Result{Outcome: OK, Version: version, Read: read}
}

func TestWorkload(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		w := Workload{Clients: 4, Keys: 3, KeyOps: 200, For: 20 * time.Millisecond, Seed: 1, Prefix: "k"}
		store := &memory{lossy: lossy, keys: make(map[string]*register)}
		ops := w.Run(t.Context(), []Store{store})
		if v := Check(ops, time.Minute); v.Linearizable() == lossy {
			t.Errorf("lossy = %v: linearizable = %v", lossy, v.Linearizable())
		}
	}
}

// TestWorkloadClosesKeys expects the full history in pieces while clients work, with all operations
// on a key in one piece.
func TestWorkloadClosesKeys(t *testing.T) {
	seen := map[string]int{}
	var pieces, ops int
	w := Workload{Clients: 4, Keys: 3, KeyOps: 20, For: 50 * time.Millisecond, Seed: 1, Prefix: "k",
		Pause: time.Microsecond}
	w.Closed = func(piece []Op) {
		pieces++
		ops += len(piece)
		for _, op := range piece {
			if at, ok := seen[op.Key]; ok && at != pieces {
				t.Fatalf("%s came in pieces %d and %d", op.Key, at, pieces)
			}
			seen[op.Key] = pieces
		}
		if v := Check(piece, time.Minute); !v.Linearizable() {
			t.Errorf("piece %d: %+v", pieces, v)
		}
	}
	store := &memory{keys: make(map[string]*register)}
	if rest := w.Run(t.Context(), []Store{store}); rest != nil {
		t.Errorf("%d operations came twice", len(rest))
	}
	if pieces < 2 || ops < store.writes {
		t.Errorf("%d operations in %d pieces, with %d writes done", ops, pieces, store.writes)
	}
}
