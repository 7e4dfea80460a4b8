package failover

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/eval/plot"
)

// probe is a client that does one thing over and over, and keeps when it succeeded, since the probes' start.
type probe struct {
	do func(ctx context.Context) error
	// of writers: whether a read returns the last acknowledged write or a later one
	kept  func(ctx context.Context) (bool, error)
	close func() error
	seen  []time.Duration
	err   error
}

// probes work side by side until they are halted.
type probes struct {
	begin time.Time
	stop  context.CancelFunc
	done  sync.WaitGroup
	all   []*probe
}

// start lets all work. The seed is that of how they are out of step.
func start(ctx context.Context, all []*probe, pause time.Duration, seed uint64) *probes {
	p := &probes{begin: time.Now(), all: all}
	ctx, p.stop = context.WithCancel(ctx)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, one := range all {
		first := time.Duration(rng.Int64N(int64(pause)))
		p.done.Go(func() { one.run(ctx, p.begin, first, pause) })
	}
	return p
}

func (one *probe) run(ctx context.Context, begin time.Time, rest, pause time.Duration) {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := one.do(ctx); err != nil {
			if ctx.Err() == nil {
				one.err = err
			}
		} else {
			one.seen = append(one.seen, time.Since(begin))
		}
		timer.Reset(pause)
	}
}

// now is the time since the start.
func (p *probes) now() time.Duration { return time.Since(p.begin) }

// halt stops the probes and returns their first error.
func (p *probes) halt() error {
	p.stop()
	p.done.Wait()
	var failed []error
	for _, one := range p.all {
		failed = append(failed, one.err)
	}
	return errors.Join(failed...)
}

// lost counts the writers whose last acknowledged write is gone. It runs after all writes have
// ended.
func lost(ctx context.Context, writers []*probe) (n int, err error) {
	for _, one := range writers {
		kept, err := one.kept(ctx)
		if err != nil {
			return n, err
		}
		if !kept {
			n++
		}
	}
	return n, nil
}

func closeAll(all []*probe) (err error) {
	for _, one := range all {
		err = errors.Join(err, one.close())
	}
	return err
}

// longestGap is the longest time without a success of any one probe, of gaps that begin between two
// times; at the first one begins in any case, at the end one ends.
func longestGap(all []*probe, from, until, end time.Duration) (longest time.Duration) {
	for _, one := range all {
		last := from
		for _, at := range append(slices.Clone(one.seen), end) {
			if at < from || at > end {
				continue
			}
			if last < until {
				longest = max(longest, at-last)
			}
			last = at
		}
	}
	return longest
}

// count is how many successes there were between two times.
func count(all []*probe, from, until time.Duration) (n int) {
	for _, one := range all {
		for _, at := range one.seen {
			if at >= from && at < until {
				n++
			}
		}
	}
	return n
}

// rates counts successes in bins, as a rate, by the time since zero.
func rates(all []*probe, zero, bin, from, to time.Duration) []plot.Point {
	from = from / bin * bin // so that a bin begins at zero
	points := make([]plot.Point, (to-from)/bin)
	for i := range points {
		at := from + time.Duration(i)*bin
		points[i] = plot.Point{X: at.Seconds(), Y: float64(count(all, zero+at, zero+at+bin)) / bin.Seconds()}
	}
	return points
}
