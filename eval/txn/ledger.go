package txn

import "sync/atomic"

// ledger is the warehouse that orders change. Only the locks under test prevent concurrent changes
// to an item. The ledger counts violations.
type ledger struct {
	rows       []row
	overlaps   atomic.Uint64 // locks held by two clients at once
	staleToken atomic.Uint64 // fencing tokens not above all earlier ones of the lock
}

// row is one item. Holder is atomic because it detects concurrent holders. The other fields are
// changed by the lock's holder only, so without overlaps never concurrently.
type row struct {
	holder atomic.Int32 // client number + 1; 0: free
	orders uint64
	units  uint64
	token  uint64 // highest token so far
}

func newLedger(items int) *ledger { return &ledger{rows: make([]row, items)} }

// seen is the state of a row when a transaction had acquired its lock.
type seen struct {
	alone         bool // false: another client held the lock too; this order is not written and counts as lost
	orders, units uint64
}

// enter records that a client has acquired a lock and reads the item.
func (l *ledger) enter(item Item, client int, token uint64) seen {
	r := &l.rows[item]
	if !r.holder.CompareAndSwap(0, int32(client+1)) {
		l.overlaps.Add(1)
		return seen{}
	}
	if token != 0 {
		if token <= r.token {
			l.staleToken.Add(1)
		}
		r.token = max(r.token, token)
	}
	return seen{true, r.orders, r.units}
}

// write updates an item from the state that enter read.
func (l *ledger) write(item Item, was seen, units uint32) {
	if !was.alone {
		return
	}
	r := &l.rows[item]
	r.orders, r.units = was.orders+1, was.units+uint64(units)
}

// leave records that a lock is about to be released.
func (l *ledger) leave(item Item, was seen) {
	if was.alone {
		l.rows[item].holder.Store(0)
	}
}

// totals are the orders and units of a run.
type totals struct{ orders, units uint64 }

// sum totals the ledger after all clients have stopped.
func (l *ledger) sum() (t totals) {
	for i := range l.rows {
		t.orders += l.rows[i].orders
		t.units += l.rows[i].units
	}
	return t
}
