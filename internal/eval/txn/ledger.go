package txn

import "sync/atomic"

// ledger is the warehouse that orders change. Nothing but the locks under test keeps two transactions from changing an item
// at once; what goes wrong then is counted.
type ledger struct {
	rows       []row
	overlaps   atomic.Uint64 // locks that two held at once
	staleToken atomic.Uint64 // fencing tokens not above all earlier ones of the lock
}

// row is one item. Holder is atomic, as it has to find out what others do at the same time; the rest is changed by whoever
// holds the lock, and by a run without overlaps therefore never by two at once.
type row struct {
	holder atomic.Int32 // 1 + the client; 0: nobody
	orders uint64
	units  uint64
	token  uint64 // the highest seen
}

func newLedger(items int) *ledger { return &ledger{rows: make([]row, items)} }

// seen is what a transaction read from a row when it had its lock.
type seen struct {
	alone         bool // false: somebody else held the lock too; the order is left to them, and gets lost
	orders, units uint64
}

// enter notes that a client has taken a lock, and reads the item.
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

// write changes an item from what was read.
func (l *ledger) write(item Item, was seen, units uint32) {
	if !was.alone {
		return
	}
	r := &l.rows[item]
	r.orders, r.units = was.orders+1, was.units+uint64(units)
}

// leave notes that a lock is about to be given back.
func (l *ledger) leave(item Item, was seen) {
	if was.alone {
		l.rows[item].holder.Store(0)
	}
}

// totals are what the orders of a run come to.
type totals struct{ orders, units uint64 }

// sum adds the ledger up, when nobody works on it any more.
func (l *ledger) sum() (t totals) {
	for i := range l.rows {
		t.orders += l.rows[i].orders
		t.units += l.rows[i].units
	}
	return t
}
