// Package collector keeps a large heap small.
package collector

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// slack is what a heap may grow between two collections, in bytes, unless that is less than leastPercent of what lives
	// in it, or more than Go's default.
	slack          = 256 << 20
	leastPercent   = 25
	defaultPercent = 100
	// lookEvery is how often the size of the heap is looked at.
	lookEvery = time.Second
	// restTimes bounds the part of the time in which memory is given back, as that collects the whole heap.
	restTimes = 20
)

var freed atomic.Bool

// Freed says that much of the heap is garbage now. [Follow] gives it back to the system. Go would collect it late in a
// process that is idle, and then keep it.
func Freed() { freed.Store(true) }

// percent is $GOGC for a heap in which so many bytes live.
func percent(live uint64) int {
	if live <= slack {
		return defaultPercent
	}
	return max(int(slack*100/live), leastPercent)
}

// Follow has a heap of many hundred MiB collected more often than by Go's default, at which it takes twice what lives
// in it, and gives back what was freed. It returns when ctx ends, or at once if $GOGC is set.
func Follow(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var next time.Time
	for now := defaultPercent; ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		metrics.Read(live)
		if wanted := percent(live[0].Value.Uint64()); wanted != now {
			now = wanted
			debug.SetGCPercent(now)
		}
		if began := time.Now(); !began.Before(next) && freed.Swap(false) {
			debug.FreeOSMemory()
			next = began.Add(restTimes * time.Since(began))
		}
	}
}
