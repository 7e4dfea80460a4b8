package etcdstudy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Latency is how long operations took, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
}

// newLatency sorts the samples.
func newLatency(samples []time.Duration) Latency {
	if len(samples) == 0 {
		return Latency{}
	}
	ms := make([]float64, len(samples))
	for i, s := range samples {
		ms[i] = float64(s) / float64(time.Millisecond)
	}
	slices.Sort(ms)
	q := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, ms, nil) }
	return Latency{q(0.5), q(0.99), q(0.999)}
}

// operation is one request of a client; kind counts it.
type operation func(ctx context.Context) (kind int, err error)

// closedLoop is the result of a closed loop of clients.
type closedLoop struct {
	counts  []int // by kind
	errors  int
	seconds float64
	cpus    float64 // used by this process
	Latency
}

func (l *closedLoop) perSecond(kind int) float64 { return float64(l.counts[kind]) / l.seconds }

// warmWithin is how long clients may take until the last has its first answer.
const warmWithin = 20 * time.Second

// runClosed lets every client do one operation after the other. Counting begins when as many have
// ended as there are clients, and lasts for the time given. begin and end are called at its ends.
func runClosed(
	ctx context.Context,
	clients []operation,
	kinds int,
	d time.Duration,
	begin, end func() error,
) (*closedLoop, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var counting atomic.Bool
	var ended atomic.Int64
	warm := make(chan struct{})
	workers := make([]worker, len(clients))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for i, op := range clients {
		w := &workers[i]
		w.counts = make([]int, kinds)
		group.Go(func() {
			for ctx.Err() == nil {
				w.once(ctx, op, &counting)
				if ended.Add(1) == int64(len(clients)) {
					close(warm)
				}
			}
		})
	}
	if err := waitFor(ctx, warm, warmWithin); err != nil {
		return nil, err
	}
	if err := begin(); err != nil {
		return nil, err
	}
	from, used := time.Now(), processTime()
	counting.Store(true)
	err := waitFor(ctx, nil, d)
	counting.Store(false)
	l := &closedLoop{counts: make([]int, kinds), seconds: time.Since(from).Seconds()}
	l.cpus = (processTime() - used).Seconds() / l.seconds
	if err == nil {
		err = end()
	}
	stop()
	group.Wait()
	if err != nil {
		return nil, err
	}
	l.add(workers)
	return l, nil
}

// worker has the results of one client.
type worker struct {
	counts []int
	errors int
	took   []time.Duration
}

// once does one operation, and counts it if it ended while all are counted.
func (w *worker) once(ctx context.Context, op operation, counting *atomic.Bool) {
	from := time.Now()
	kind, err := op(ctx)
	switch {
	case !counting.Load() || ctx.Err() != nil:
	case err != nil:
		w.errors++
	default:
		w.counts[kind]++
		w.took = append(w.took, time.Since(from))
	}
}

func (l *closedLoop) add(workers []worker) {
	var took []time.Duration
	for _, w := range workers {
		for kind, n := range w.counts {
			l.counts[kind] += n
		}
		l.errors += w.errors
		took = append(took, w.took...)
	}
	l.Latency = newLatency(took)
}

// waitFor waits until a channel is closed, at most so long.
func waitFor(ctx context.Context, done <-chan struct{}, d time.Duration) error {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// processTime is the CPU time of this process so far.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
