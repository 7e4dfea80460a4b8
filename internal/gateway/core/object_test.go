package core

import "testing"

// cells is the cells of a shard, by key.
type cells struct {
	shard uint64
	keys  map[string]*Cell
}

func newCells(shard uint64) *cells { return &cells{shard, make(map[string]*Cell)} }

// do executes operations and checks their statuses.
func do(t *testing.T, s *cells, op Op, want Status) Answer {
	t.Helper()
	c := s.keys[op.Key]
	if c == nil {
		c = &Cell{Epoch: s.shard}
		s.keys[op.Key] = c
	}
	a, _ := c.Apply(&op, 0)
	if a.Status != want {
		t.Fatalf("%v: %v, not %v", op.Kind, a.Status, want)
	}
	return a
}

func value(rev int64) Entry { return Entry{State: Value, Rev: rev} }

func TestOnlyCreateMakesObjects(t *testing.T) {
	s := newCells(7)
	for _, kind := range []OpKind{SetBit, Resolve, Load, Remove} {
		do(t, s, Op{Kind: kind, Key: "k", Gen: 5}, Gone)
	}
	do(t, s, Op{Kind: Create, Key: "k", Gen: 5, Epoch: 6}, Gone)
	do(t, s, Op{Kind: Create, Key: "k", Gen: 5, Epoch: 7}, OK)
	do(t, s, Op{Kind: Create, Key: "k", Gen: 4, Epoch: 7}, Gone)
	do(t, s, Op{Kind: SetBit, Key: "k", Gen: 4}, Gone)
}

func TestObjectBecomesReadable(t *testing.T) {
	s := newCells(1)
	do(t, s, Op{Kind: Create, Key: "k", Gen: 5, Epoch: 1}, OK)
	do(t, s, Op{Kind: Resolve, Key: "k", Gen: 5, Entry: value(10)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Readable() || o.Rev != 10 {
		t.Errorf("a joining object stores, and is not readable: %+v", o)
	}
	do(t, s, Op{Kind: Load, Key: "k", Gen: 5, Entry: value(8)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; !o.Readable() || o.Rev != 10 {
		t.Errorf("an older LOAD ends joining and stores nothing: %+v", o)
	}
	do(t, s, Op{Kind: Create, Key: "k", Gen: 5, Epoch: 1}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; !o.Readable() {
		t.Errorf("a repeated CREATE changes nothing: %+v", o)
	}
	do(t, s, Op{Kind: Resolve, Key: "k", Gen: 5, Entry: Entry{State: NotCacheable, Rev: 11}}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Readable() {
		t.Errorf("what is not cacheable is not readable: %+v", o)
	}
}

func TestStamps(t *testing.T) {
	s := newCells(1)
	do(t, s, Op{Kind: Create, Key: "k", Gen: 5, Epoch: 1}, OK)
	do(t, s, Op{Kind: Load, Key: "k", Gen: 5, Entry: value(1)}, OK)
	first := do(t, s, Op{Kind: SetBit, Key: "k", Gen: 5, Bit: 3}, OK).Stamp
	second := do(t, s, Op{Kind: SetBit, Key: "k", Gen: 5, Bit: 3}, OK).Stamp
	do(t, s, Op{Kind: Resolve, Key: "k", Gen: 5, Bit: 3, Stamp: first, Clear: true, Entry: value(2)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Bits != 1<<3 || o.Rev != 2 || first == second {
		t.Errorf("an old stamp clears no bit: %+v", o)
	}
	do(t, s, Op{Kind: Resolve, Key: "k", Gen: 5, Bit: 3, Stamp: second, Clear: true, Entry: value(2)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; !o.Readable() {
		t.Errorf("the current stamp does: %+v", o)
	}
}

func TestRevisionObject(t *testing.T) {
	s := newCells(4)
	do(t, s, Op{Kind: ReadRevision}, Miss)
	do(t, s, Op{Kind: Max, Epoch: 3, Rev: 9, Make: true}, Gone)
	do(t, s, Op{Kind: Max, Epoch: 4, Rev: 9}, Miss)
	do(t, s, Op{Kind: Max, Epoch: 4, Rev: 9, Make: true}, OK)
	do(t, s, Op{Kind: Max, Epoch: 4, Rev: 7}, OK)
	if a := do(t, s, Op{Kind: ReadRevision}, OK); a.Rev != 9 || a.Epoch != 4 {
		t.Errorf("%+v", a)
	}
}
