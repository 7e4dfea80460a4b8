package placement

// Budget bounds how often the directory of placed keys changes. Each change writes to etcd, which placing keys is to relieve: so
// it has to be a small part of what clients ask of etcd. The zero value is full.
type Budget struct {
	spent float64 // of budgetMost
	last  float64
}

const (
	// budgetMost is how many changes may follow each other at once.
	budgetMost = 5
	// budgetPerSecond, budgetPerWrite and budgetPerRead are the changes that a second, a client's write and a read that etcd
	// answered allow.
	budgetPerSecond = 0.2
	budgetPerWrite  = 0.04
	budgetPerRead   = 0.02
)

// Wrote notes writes of clients.
func (b *Budget) Wrote(n float64) { b.earn(budgetPerWrite * n) }

// Read notes reads that etcd answered.
func (b *Budget) Read(n float64) { b.earn(budgetPerRead * n) }

func (b *Budget) earn(changes float64) { b.spent = max(0, b.spent-changes) }

// Take takes some changes at a time, and reports whether that is possible now.
func (b *Budget) Take(changes int, now float64) bool {
	b.earn(budgetPerSecond * (now - b.last))
	b.last = now
	if b.spent > budgetMost-1 {
		return false
	}
	b.spent += float64(changes)
	return true
}
