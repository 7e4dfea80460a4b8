package chaos

import (
	"fmt"
	"time"
)

// Curves are rates of operations in bins over a part of a round. Times are relative to the failure.
type Curves struct {
	Title                string
	Lines                []Line
	RepairFrom, RepairTo time.Duration
}

// Line is the rate of one kind of operation.
type Line struct {
	Name  string
	Rates []Rate
}

// Rate is the rate of successes in one bin.
type Rate struct {
	At        time.Duration
	PerSecond float64
}

// curves returns the curves of a part of the round.
func (f *failover) curves(bin, from, to time.Duration) Curves {
	line := func(name string, all []*probe) Line { return Line{name, rates(all, f.failed, bin, from, to)} }
	title := fmt.Sprintf("%d shards", f.before.Shards())
	if f.before.Shards() == 1 {
		title = "1 shard"
	}
	return Curves{
		Title:      fmt.Sprintf("%s, %s lost, bins of %v", title, f.place, bin),
		Lines:      []Line{line("reads", f.anyNode), line("writes", f.writers)},
		RepairFrom: f.noticed - f.failed,
		RepairTo:   min(f.repaired-f.failed, to),
	}
}

// rates returns the rate of successes in bins, with times relative to zero.
func rates(all []*probe, zero, bin, from, to time.Duration) []Rate {
	from = from / bin * bin // align a bin with zero
	rates := make([]Rate, (to-from)/bin)
	for i := range rates {
		rates[i].At = from + time.Duration(i)*bin
	}
	for _, one := range all {
		for _, at := range one.seen {
			if since := at - zero - from; since >= 0 && int(since/bin) < len(rates) {
				rates[since/bin].PerSecond += 1 / bin.Seconds()
			}
		}
	}
	return rates
}
