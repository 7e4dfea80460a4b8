package txn

import (
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Result is the outcome of a run. Transactions count if they ended within the measurement. The
// checks cover the whole run.
type Result struct {
	Clients    int     `json:"clients"`
	Contention float64 `json:"contention"`
	HotItems   int     `json:"hot_items"`
	Items      int     `json:"items"`
	Locks      int     `json:"locks_per_transaction"`
	AtOnce     int     `json:"locks_at_once"`
	Seed       uint64  `json:"seed"`
	Seconds    float64 `json:"seconds"`

	PerSecond float64 `json:"transactions_per_s"` // committed
	Commits   uint64  `json:"commits"`
	Aborts    uint64  `json:"aborts"`     // attempts given up because another client held a lock
	AbortRate float64 `json:"abort_rate"` // aborts divided by attempts
	P50us     float64 `json:"p50_us"`     // from the first attempt of a transaction until its locks are released
	P99us     float64 `json:"p99_us"`

	Violations  uint64 `json:"violations"`   // locks held by two clients at once
	LostUpdates uint64 `json:"lost_updates"` // orders missing in the ledger
	LostUnits   int64  `json:"lost_units"`   // units ordered minus units in the ledger
	StaleTokens uint64 `json:"stale_tokens"` // fencing tokens that decreased

	Settings []string `json:"settings,omitempty"`
}

// Sound reports whether the locks kept their guarantees.
func (r *Result) Sound() bool {
	return r.Violations == 0 && r.LostUpdates == 0 && r.LostUnits == 0 && r.StaleTokens == 0
}

// Check returns an error that lists the violations of a run.
func (r *Result) Check() error {
	if r.Sound() {
		return nil
	}
	return fmt.Errorf("the locks failed: %d held by two clients at once, %d updates lost, %d fencing tokens decreased",
		r.Violations, r.LostUpdates, r.StaleTokens)
}

// worker counts the work of one client.
type worker struct {
	commits, aborts uint64 // within the measurement
	times           []time.Duration
	done            totals // totals of the whole run
	err             error
}

func (o *Options) result(all []worker, l *ledger, measured time.Duration) *Result {
	r := &Result{
		Clients: o.Clients, Contention: o.Contention, HotItems: o.HotItems(), Items: o.Items,
		Locks: o.Locks, AtOnce: o.AtOnce,
		Seed: o.Seed, Seconds: measured.Seconds(), Violations: l.overlaps.Load(), StaleTokens: l.staleToken.Load(),
	}
	var times []time.Duration
	var done totals
	for i := range all {
		w := &all[i]
		r.Commits, r.Aborts = r.Commits+w.commits, r.Aborts+w.aborts
		done.orders, done.units = done.orders+w.done.orders, done.units+w.done.units
		times = append(times, w.times...)
	}
	found := l.sum()
	r.LostUpdates, r.LostUnits = done.orders-found.orders, int64(done.units-found.units)
	micros := make([]float64, len(times))
	for i, t := range times {
		micros[i] = float64(t.Nanoseconds()) / 1e3
	}
	slices.Sort(micros)
	r.PerSecond = float64(r.Commits) / r.Seconds
	r.P50us, r.P99us = statistics.Quantile(0.5, micros), statistics.Quantile(0.99, micros)
	if attempts := r.Commits + r.Aborts; attempts > 0 {
		r.AbortRate = float64(r.Aborts) / float64(attempts)
	}
	return r
}
