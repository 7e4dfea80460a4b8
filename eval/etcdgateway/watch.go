package etcdgateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/eval/statistics"
)

// watchedKey is written for watchers.
const watchedKey = "bench/watched"

const (
	// eventEvery is the pause between two writes of the watched key.
	eventEvery = 5 * time.Millisecond
	// eventWithin bounds the wait for the last event.
	eventWithin = 10 * time.Second
)

// Watch compares when the events of the same writes arrive.
type Watch struct {
	Events  int     `json:"events"`
	AddedMs float64 `json:"added_ms"` // median
	P99Ms   float64 `json:"added_p99_ms"`
}

// arrivals are the times of events by revision.
type arrivals map[int64]time.Time

// watchDelay writes a key through the gateway while as many clients watch it through the gateway as etcd has members,
// and one at each member. An event's delay is the mean of the first less the mean of the second.
func (b *bench) watchDelay(ctx context.Context) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchers := slices.Concat(b.through[:b.Members], b.direct[:b.Members])
	seen, ended := make([]arrivals, len(watchers)), make(chan error, len(watchers))
	stop := make(chan int64, len(watchers))
	for i, c := range watchers {
		events := c.Watch(ctx, watchedKey, clientv3.WithCreatedNotify())
		if first, ok := <-events; !ok || !first.Created {
			return nil, errors.Join(errors.New("a watch was not created"), first.Err(), ctx.Err())
		}
		seen[i] = make(arrivals)
		go func() { ended <- seen[i].collect(events, stop) }()
	}
	var last int64
	for until := time.Now().Add(b.plan().Length()); last == 0 || time.Now().Before(until); time.Sleep(eventEvery) {
		r, err := b.through[0].Put(ctx, watchedKey, "v")
		if err != nil {
			return nil, fmt.Errorf("a write for watchers: %w", err)
		}
		last = r.Header.Revision
	}
	for range watchers {
		stop <- last
	}
	limit := time.AfterFunc(eventWithin, cancel)
	defer limit.Stop()
	for range watchers {
		if err := <-ended; err != nil {
			return nil, err
		}
	}
	return added(seen, b.Members), nil
}

// collect notes events until one has the revision that comes through stop, or a later one.
func (a arrivals) collect(events clientv3.WatchChan, stop <-chan int64) error {
	last, newest := int64(-1), int64(0)
	for last < 0 || newest < last {
		select {
		case last = <-stop:
		case answer, ok := <-events:
			now := time.Now()
			if !ok || answer.Err() != nil {
				return errors.Join(errors.New("a watch ended before its last event"), answer.Err())
			}
			for _, e := range answer.Events {
				newest = e.Kv.ModRevision
				a[newest] = now
			}
		}
	}
	return nil
}

// added returns how many milliseconds later each event arrives through the gateway. The first half of the watchers
// use it.
func added(seen []arrivals, half int) []float64 {
	var all []float64
	for rev := range seen[0] {
		var sum time.Duration
		base := seen[0][rev]
		complete := true
		for i, a := range seen {
			at, ok := a[rev]
			complete = complete && ok
			if i < half {
				sum += at.Sub(base)
			} else {
				sum -= at.Sub(base)
			}
		}
		if complete {
			all = append(all, float64(sum)/float64(half)/float64(time.Millisecond))
		}
	}
	return all
}

func newWatch(delays []float64) Watch {
	slices.Sort(delays)
	return Watch{Events: len(delays), AddedMs: statistics.Quantile(0.5, delays), P99Ms: statistics.Quantile(0.99, delays)}
}
