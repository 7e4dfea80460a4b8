package bench

import (
	"context"
	"fmt"
	"time"
)

// Sizes of the kernel program's histogram, as in eval/bpf/load/loadgen_clock.h.
const (
	stepBits = 6
	buckets  = 36 << stepBits
)

// histogram counts the answers to reads and to writes by latency.
type histogram [2][buckets]uint64

// LineLatency holds the latencies at an offered load. A latency begins when the kernel makes the
// request's packet and ends when the kernel checks the answer.
type LineLatency struct {
	LineFigure
	OfferedPerS float64   `json:"offered_per_s"`
	Read        Quantiles `json:"read"`
	Write       Quantiles `json:"write"`
}

// Quantiles are quantiles of times in microseconds; all are zero without samples.
type Quantiles struct {
	Count  uint64  `json:"count"`
	Meanus float64 `json:"mean_us"`
	P50us  float64 `json:"p50_us"`
	P99us  float64 `json:"p99_us"`
	P999us float64 `json:"p999_us"`
}

// Latency offers perSecond requests a second for d, independent of the answers. Above about 20,000
// a second it sends them in small groups.
func (l *Line) Latency(ctx context.Context, w Work, perSecond float64, d time.Duration) (LineLatency, error) {
	if perSecond <= 0 {
		return LineLatency{}, wrongOption("an offered load above 0, not %v", perSecond)
	}
	if w.Congestion != nil {
		return LineLatency{}, wrongOption("latency under congestion is not measured")
	}
	if err := l.use(ctx, w, true); err != nil {
		return LineLatency{}, err
	}
	const callTime = 50 * time.Microsecond // one call to the kernel sends the requests of this time
	batch := max(1, min(sendBatch, int(perSecond*callTime.Seconds())/l.load.bundle.requests()))
	var before, after histogram
	if err := l.readHistogram(&before); err != nil {
		return LineLatency{}, err
	}
	f, err := l.measure(ctx, pace{perSecond: perSecond, batch: batch}, d)
	if err != nil {
		return LineLatency{}, err
	}
	if err := l.readHistogram(&after); err != nil {
		return LineLatency{}, err
	}
	for kind := range after {
		for i := range after[kind] {
			after[kind][i] -= before[kind][i]
		}
	}
	return LineLatency{LineFigure: f, OfferedPerS: perSecond, Read: quantilesOf(&after[0]),
		Write: quantilesOf(&after[1])}, nil
}

func (l *Line) readHistogram(h *histogram) error {
	if err := l.load.collection.Variables["histogram"].Get(h); err != nil {
		return fmt.Errorf("read the histogram: %w", err)
	}
	return nil
}

// bucketTime returns the middle of a bucket in nanoseconds.
func bucketTime(i int) float64 {
	if i < 2<<stepBits {
		return float64(i)
	}
	shift := i>>stepBits - 1
	steps := i&(1<<stepBits-1) + 1<<stepBits
	return (float64(steps) + 0.5) * float64(uint64(1)<<shift)
}

func quantilesOf(counts *[buckets]uint64) Quantiles {
	var q Quantiles
	sum := 0.0
	for i, n := range counts {
		q.Count += n
		sum += float64(n) * bucketTime(i) / 1e3
	}
	if q.Count == 0 {
		return q
	}
	q.Meanus = sum / float64(q.Count)
	for _, want := range []struct {
		share float64
		at    *float64
	}{{0.5, &q.P50us}, {0.99, &q.P99us}, {0.999, &q.P999us}} {
		seen := uint64(0)
		for i, n := range counts {
			if seen += n; float64(seen) >= want.share*float64(q.Count) {
				*want.at = bucketTime(i) / 1e3
				break
			}
		}
	}
	return q
}
