package placement

import "slices"

// Budget bounds how often the directory of placed keys changes. Each change writes to etcd, which placing keys is to relieve: so
// it has to be a small part of what clients ask of etcd. The zero value is full.
type Budget struct {
	spent float64 // of budgetMost
	last  float64
}

const (
	// budgetMost is how many changes may follow each other at once.
	budgetMost = 9
	// budgetPerSecond, budgetPerWrite and budgetPerRead are the changes that a second, a client's write and a read that etcd
	// answered allow.
	budgetPerSecond = 0.3
	budgetPerWrite  = 0.05
	budgetPerRead   = 0.1
)

// Wrote notes writes of clients.
func (b *Budget) Wrote(n float64) { b.earn(budgetPerWrite * n) }

// Read notes reads that etcd answered.
func (b *Budget) Read(n float64) { b.earn(budgetPerRead * n) }

func (b *Budget) earn(changes float64) { b.spent = max(0, b.spent-changes) }

// Afford leaves out of a decision the changes that the budget does not allow now. Pinned keys are placed anyway, and keys are
// removed anyway if that is urgent.
func (b *Budget) Afford(o *Options, d *Decision, now float64) {
	b.earn(budgetPerSecond * (now - b.last))
	b.last = now
	if b.spent > budgetMost-1 {
		d.Place = slices.DeleteFunc(d.Place, func(key string) bool { return !o.Pins(key) })
		if !d.Urgent {
			d.Remove = nil
		}
	}
	b.spent += float64(d.Writes())
}
