package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// lossLimit is the highest share of unanswered requests at which a rate counts.
const lossLimit = 0.001

// Figure is the result of one measurement of a load.
type Figure struct {
	Counters
	PerSecond float64 // correct answers while requests were sent
	LoadS     float64 // time during which requests were sent, in seconds
}

// tolerable reports whether the loss is low enough for the figure to count.
func (f Figure) tolerable() bool {
	return f.Sent > 0 && float64(f.Lost()) < lossLimit*float64(f.Sent)
}

// pace is the rate of requests. The zero value is the generator's full speed.
type pace struct {
	perSecond float64 // fixed rate, independent of answers
	window    int     // limit of outstanding requests; 0: no limit
	batch     int     // frames sent before the other side may work; 0: sendBatch
	forgiving bool    // after a while without answers, outstanding requests count as lost and leave the window
}

// measure offers requests for d. It returns when every answer has arrived or no more arrive.
func (l *load) measure(ctx context.Context, p pace, d time.Duration) (Figure, error) {
	var f Figure
	err := l.from.host.do(func() error {
		if err := pin(); err != nil {
			return err
		}
		before, err := l.counters()
		if err != nil {
			return err
		}
		start := time.Now()
		if err := l.offer(ctx, p, d, before); err != nil {
			return err
		}
		elapsed := time.Since(start)
		inTime, err := l.counters()
		if err != nil {
			return err
		}
		after, err := l.drain(before)
		f = Figure{
			Counters:  after.minus(before),
			PerSecond: float64(inTime.OK-before.OK) / elapsed.Seconds(),
			LoadS:     elapsed.Seconds(),
		}
		return err
	})
	return f, err
}

// offer sends for d. The pace determines the length of each call to the kernel.
func (l *load) offer(ctx context.Context, p pace, d time.Duration, before Counters) error {
	const idle = 50 * time.Microsecond
	start := time.Now()
	var written off
	for ctx.Err() == nil {
		elapsed := time.Since(start)
		if elapsed >= d {
			return nil
		}
		if l.beside != nil {
			if err := l.beside(elapsed); err != nil {
				return err
			}
		}
		now, err := l.counters()
		if err != nil {
			return err
		}
		t := now.minus(before)
		if p.forgiving && p.window > 0 {
			written.look(&t, elapsed)
		}
		n := p.due(t, l.bundle.requests(), elapsed, d)
		if n == 0 {
			time.Sleep(idle)
			continue
		}
		if err := l.send(n, p.batchOr(sendBatch)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// off counts requests that have been written off: no answer is expected any more.
type off struct {
	requests uint64
	answers  uint64        // at the last call of look
	since    time.Duration // time of their last change
}

// look subtracts the written-off requests from t. It writes off all outstanding requests when no
// answer has come for a while.
func (o *off) look(t *Counters, elapsed time.Duration) {
	const patience = 2 * time.Millisecond
	if answers := t.Answers(); answers != o.answers {
		o.answers, o.since = answers, elapsed
	}
	if elapsed-o.since > patience {
		o.requests, o.since = t.Lost(), elapsed
	}
	t.Sent -= o.requests
}

func (p pace) batchOr(usual int) int {
	if p.batch > 0 {
		return p.batch
	}
	return usual
}

// due returns the number of requests to send next, or 0 to wait. Each frame carries perFrame of
// them.
func (p pace) due(t Counters, perFrame int, elapsed, d time.Duration) int {
	const callTime = 50 * time.Millisecond // length of a call at full speed
	sent := float64(t.Sent)
	switch {
	case p.window > 0:
		if free := p.window - int(t.Lost()); free >= p.window/2 {
			return free
		}
		return 0
	case p.perSecond > 0:
		behind := p.perSecond*elapsed.Seconds() - sent
		if behind < float64(p.batchOr(sendBatch)*perFrame) {
			return 0
		}
		return int(behind)
	}
	if sent == 0 {
		return 16 * sendBatch * perFrame
	}
	return max(sendBatch*perFrame, int(sent/elapsed.Seconds()*min(callTime, d-elapsed).Seconds()))
}

// drain waits until all requests since before are answered or no more answers arrive.
func (l *load) drain(before Counters) (Counters, error) {
	const patience = 100 * time.Millisecond
	last, err := l.counters()
	for quiet := time.Now(); err == nil && last.minus(before).Lost() > 0 && time.Since(quiet) < patience; {
		time.Sleep(time.Millisecond)
		var now Counters
		if now, err = l.counters(); now.Answers() != last.Answers() {
			last, quiet = now, time.Now()
		}
	}
	return last, err
}

// windows are tried in this order until one loses less than lossLimit. Full speed comes first: it
// loses nothing where generator and node share a CPU and so keep step.
var windows = []int{0, 4096, 1024, 256, 64, 16}

// slower returns the next slower pace.
func (p pace) slower() pace {
	next := slices.Index(windows, p.window) + 1
	return pace{window: windows[min(next, len(windows)-1)]}
}

// highestPace finds the pace with the highest rate whose loss is below lossLimit.
func (l *load) highestPace(ctx context.Context) (pace, error) {
	const trial = 200 * time.Millisecond
	var best pace
	highest := 0.0
	for _, window := range windows {
		p := pace{window: window}
		f, err := l.measure(ctx, p, trial)
		if err != nil {
			return p, err
		}
		if f.tolerable() && f.PerSecond > highest {
			best, highest = p, f.PerSecond
		} else if highest > 0 {
			return best, nil
		}
	}
	if highest == 0 {
		return best, errors.New("requests are lost even at the slowest pace")
	}
	return best, nil
}

// pin keeps the calling thread on one CPU. Generator, node and counter then share that CPU, because
// the kernel handles a packet on the CPU that sent it. It must be called before other work.
func pin() error {
	if err := stayOnCPU(); err != nil {
		return err
	}
	attributes := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	return unix.SchedSetAttr(0, attributes, 0)
}
