package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// lossLimit is the share of requests without an answer from which on a rate counts as too high.
const lossLimit = 0.001

// Figure is what one measurement of a load found.
type Figure struct {
	Tally
	PerSecond float64 // right answers while requests were being sent
	LoadS     float64 // for how long they were sent, in seconds
}

// tolerable reports whether so few requests were lost that the figure counts.
func (f Figure) tolerable() bool {
	return f.Sent > 0 && float64(f.Lost()) < lossLimit*float64(f.Sent)
}

// measure offers requests for d at a rate; rate 0 is as fast as the generator can. It returns when every answer is there
// or none has come for a while.
func (l *load) measure(ctx context.Context, rate float64, d time.Duration) (Figure, error) {
	var f Figure
	err := l.from.host.do(func() error {
		if err := pin(); err != nil {
			return err
		}
		before, err := l.tally()
		if err != nil {
			return err
		}
		start := time.Now()
		if err := l.offer(ctx, rate, d); err != nil {
			return err
		}
		elapsed := time.Since(start)
		inTime, err := l.tally()
		if err != nil {
			return err
		}
		after, err := l.drain(before)
		f = Figure{
			Tally:     after.minus(before),
			PerSecond: float64(inTime.OK-before.OK) / elapsed.Seconds(),
			LoadS:     elapsed.Seconds(),
		}
		return err
	})
	return f, err
}

// offer sends for d. At full speed a call to the kernel lasts about callTime; at a given rate each sends what is due.
func (l *load) offer(ctx context.Context, rate float64, d time.Duration) error {
	const (
		callTime = 50 * time.Millisecond
		tick     = time.Millisecond
		first    = 16 * sendBatch
	)
	start := time.Now()
	before, err := l.tally()
	for n := first; err == nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		elapsed := time.Since(start)
		if elapsed >= d {
			return nil
		}
		now, err := l.tally()
		if err != nil {
			return err
		}
		sent := float64(now.Sent - before.Sent)
		if rate > 0 {
			due := rate*(elapsed+tick).Seconds() - sent
			if due < sendBatch {
				time.Sleep(tick / 2)
				continue
			}
			n = min(int(due), int(rate*callTime.Seconds())+sendBatch)
		} else if sent > 0 {
			n = max(first, int(sent/elapsed.Seconds()*min(callTime, d-elapsed).Seconds()))
		}
		if err := l.send(n); err != nil {
			return err
		}
	}
	return err
}

// drain waits until all requests since before are answered, or until nothing has come for a while.
func (l *load) drain(before Tally) (Tally, error) {
	const patience = 100 * time.Millisecond
	last, err := l.tally()
	for quiet := time.Now(); err == nil && last.minus(before).Lost() > 0 && time.Since(quiet) < patience; {
		time.Sleep(time.Millisecond)
		var now Tally
		if now, err = l.tally(); now.Answers() != last.Answers() {
			last, quiet = now, time.Now()
		}
	}
	return last, err
}

// highestRate looks for the highest rate at which fewer requests than lossLimit are lost: full speed (0) if that
// loses nothing, which is so where the generator and the node share a CPU and so keep step.
func (l *load) highestRate(ctx context.Context) (float64, error) {
	const (
		trial = 250 * time.Millisecond
		steps = 8
		span  = 64 // between the lowest rate looked at and full speed
	)
	f, err := l.measure(ctx, 0, trial)
	if err != nil || f.tolerable() {
		return 0, err
	}
	high := float64(f.Sent) / f.LoadS
	low := high / span
	for range steps {
		middle := geometricMean(low, high)
		f, err := l.measure(ctx, middle, trial)
		if err != nil {
			return 0, err
		}
		if f.tolerable() {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// pin keeps the calling thread on one CPU, before other work. Generator, node and counter then share that CPU: the
// kernel handles a packet where it was sent.
func pin() error {
	if err := stayOnCPU(); err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
}

// stayOnCPU keeps the calling thread on the last CPU it may use.
func stayOnCPU() error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("read the CPU set: %w", err)
	}
	last := min(runtime.NumCPU(), maxCPUs) - 1
	for last > 0 && !allowed.IsSet(last) {
		last--
	}
	var one unix.CPUSet
	one.Set(last)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("stay on CPU %d: %w", last, err)
	}
	return nil
}
