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
		do(t, s, Op{Kind: kind, Key: "k", Instance: 5}, Gone)
	}
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 6}, Gone)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 7}, OK)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 4, Epoch: 7}, Gone)
	do(t, s, Op{Kind: SetBit, Key: "k", Instance: 4}, Gone)
}

func TestObjectBecomesReadable(t *testing.T) {
	s := newCells(1)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 1}, OK)
	do(t, s, Op{Kind: Resolve, Key: "k", Instance: 5, Entry: value(10)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Readable() || o.Rev != 10 {
		t.Errorf("a joining object stores, and is not readable: %+v", o)
	}
	do(t, s, Op{Kind: Load, Key: "k", Instance: 5, Entry: value(8)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; !o.Readable() || o.Rev != 10 {
		t.Errorf("an older LOAD ends joining and stores nothing: %+v", o)
	}
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 1}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; !o.Readable() {
		t.Errorf("a repeated CREATE changes nothing: %+v", o)
	}
	do(t, s, Op{Kind: Resolve, Key: "k", Instance: 5, Entry: Entry{State: NotCacheable, Rev: 11}}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Readable() {
		t.Errorf("what is not cacheable is not readable: %+v", o)
	}
}

func TestStamps(t *testing.T) {
	s := newCells(1)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 1}, OK)
	do(t, s, Op{Kind: Load, Key: "k", Instance: 5, Entry: value(1)}, OK)
	first := do(t, s, Op{Kind: SetBit, Key: "k", Instance: 5, Bit: 3}, OK).Ticket
	second := do(t, s, Op{Kind: SetBit, Key: "k", Instance: 5, Bit: 3}, OK).Ticket
	do(t, s, Op{Kind: Resolve, Key: "k", Instance: 5, Bit: 3, Ticket: first, Clear: true, Entry: value(2)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Bits != 1<<3 || o.Rev != 2 || first == second {
		t.Errorf("an old ticket clears no bit: %+v", o)
	}
	do(t, s, Op{Kind: Resolve, Key: "k", Instance: 5, Bit: 3, Ticket: second, Clear: true, Entry: value(2)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; !o.Readable() {
		t.Errorf("the current ticket does: %+v", o)
	}
}

// TestObjectsAreReplacedAndRemoved: CREATE replaces an object of an older instance, REMOVE deletes one of its own.
func TestObjectsAreReplacedAndRemoved(t *testing.T) {
	s := newCells(1)
	do(t, s, Op{Kind: ReadObject, Key: "k"}, Miss)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 1}, OK)
	do(t, s, Op{Kind: Load, Key: "k", Instance: 5, Entry: value(10)}, OK)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 6, Epoch: 1}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Instance != 6 || !o.Joining || o.Rev != 0 {
		t.Errorf("%+v in place of an older object", o)
	}
	do(t, s, Op{Kind: Remove, Key: "k", Instance: 5}, Gone)
	do(t, s, Op{Kind: Remove, Key: "k", Instance: 6}, OK)
	do(t, s, Op{Kind: ReadObject, Key: "k"}, Miss)
}

// TestResolveWithoutClear stores the entry and leaves the bit to another RESOLVE.
func TestResolveWithoutClear(t *testing.T) {
	s := newCells(1)
	do(t, s, Op{Kind: Create, Key: "k", Instance: 5, Epoch: 1}, OK)
	ticket := do(t, s, Op{Kind: SetBit, Key: "k", Instance: 5, Bit: 3}, OK).Ticket
	do(t, s, Op{Kind: Resolve, Key: "k", Instance: 5, Bit: 3, Ticket: ticket, Entry: value(2)}, OK)
	if o := do(t, s, Op{Kind: ReadObject, Key: "k"}, OK).Object; o.Bits != 1<<3 || o.Rev != 2 {
		t.Errorf("%+v", o)
	}
}

// TestWithoutInstance: with the rule switched off, an operation finds or makes an object of any instance.
func TestWithoutInstance(t *testing.T) {
	c := Cell{}
	c.Apply(&Op{Kind: SetBit, Instance: 5}, Instance)
	made := c.Object
	c.Apply(&Op{Kind: SetBit, Instance: 6}, Instance)
	if made == nil || c.Object != made || made.Counter != 2 {
		t.Errorf("%+v, then %+v", made, c.Object)
	}
}

// TestUnchangedRevision: an equal revision is not written again.
func TestUnchangedRevision(t *testing.T) {
	for rev, want := range map[int64]bool{8: false, 9: false, 10: true} {
		c := Cell{Revision: 9}
		if _, changed := c.Apply(&Op{Kind: Max, Rev: rev}, 0); changed != want {
			t.Errorf("revision %d is written: %v", rev, changed)
		}
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

// TestReadable: an object is read if no write is under way, all sessions know of it, and it has a state that a client
// sees.
func TestReadable(t *testing.T) {
	for state, want := range map[State]bool{Empty: false, Value: true, Absent: true, NotCacheable: false, Packed: true} {
		o := Object{Entry: Entry{State: state}}
		if o.Readable() != want {
			t.Errorf("%v: %v", state, !want)
		}
		if o.Bits = 1; o.Readable() {
			t.Errorf("%v with a bit is readable", state)
		}
		if o.Bits, o.Joining = 0, true; o.Readable() {
			t.Errorf("%v while joining is readable", state)
		}
	}
}
