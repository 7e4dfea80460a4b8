package etcdload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Load is one kind of requests, or a mix of reads and writes.
type Load struct {
	Name, About string
	Writes      float64 // part of the requests that write, 0 to 1
	Txn         bool    // a write is a Txn: put if the key exists, else get. Otherwise it is a Put
	Limit       int64   // of reads; 0: none
	Prefix      bool    // a read asks for all keys that begin with the key
	Key         func(random *rand.Rand) string
	Value       string // of writes
}

// writes draws whether the next request writes.
func (l *Load) writes(random *rand.Rand) bool {
	return l.Writes == 1 || l.Writes > 0 && random.Float64() < l.Writes
}

// do sends a request through etcd's own client.
func (l *Load) do(ctx context.Context, c *clientv3.Client, random *rand.Rand) (err error) {
	write, key := l.writes(random), l.Key(random)
	switch {
	case !write && l.Prefix:
		_, err = c.Get(ctx, key, clientv3.WithPrefix(), clientv3.WithLimit(l.Limit))
	case !write:
		_, err = c.Get(ctx, key, clientv3.WithLimit(l.Limit))
	case l.Txn:
		// Kubernetes' writes have this form. The condition holds, since all keys exist.
		_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
			Then(clientv3.OpPut(key, l.Value)).Else(clientv3.OpGet(key)).Commit()
	default:
		_, err = c.Put(ctx, key, l.Value)
	}
	return err
}

// Plan is how long how many clients send requests.
type Plan struct {
	Clients int
	Seconds float64
	Seed    uint64
}

// Length is the time in which answers count.
func (p *Plan) Length() time.Duration { return time.Duration(p.Seconds * float64(time.Second)) }

// Window is what clients saw of one load within its time.
type Window struct {
	PerSecond float64 `json:"per_second"`
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	Errors    int     `json:"errors"`
	Begun     int     `json:"-"` // requests in all, before and after the window too
}

// warmPart is the part of a window that passes before answers count.
const warmPart = 0.1

// bounds are when answers count, in a window that begins then.
func (p *Plan) bounds(begin time.Time) (from, until time.Time) {
	from = begin.Add(time.Duration(warmPart * float64(p.Length())))
	return from, from.Add(p.Length())
}

// Run has every client do one request after the other. Answers count from a while after the beginning.
func (p *Plan) Run(ctx context.Context, conns []*clientv3.Client, l *Load, round int) (Window, error) {
	begin := time.Now()
	from, until := p.bounds(begin)
	bound, cancel := context.WithDeadline(ctx, until.Add(requestWithin))
	defer cancel()
	seen := make([]tally, p.Clients)
	var group sync.WaitGroup
	for i := range p.Clients {
		random := rand.New(rand.NewPCG(p.Seed, uint64(round*p.Clients+i)))
		group.Go(func() {
			for start := time.Now(); start.Before(until) && ctx.Err() == nil; {
				seen[i].begun++
				err := l.do(bound, conns[i%len(conns)], random)
				end := time.Now()
				if !end.Before(from) && !end.After(until) {
					seen[i].note(end.Sub(start), err)
				}
				start = end
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return Window{}, ctx.Err()
	}
	return p.window(l, seen)
}

// tally counts the outcomes of a client.
type tally struct {
	begun  int
	took   []float64 // ms
	failed int
	last   error
}

func (t *tally) note(took time.Duration, err error) {
	if err != nil {
		t.failed, t.last = t.failed+1, err
	} else {
		t.took = append(t.took, float64(took)/float64(time.Millisecond))
	}
}

// window adds the tallies of all clients.
func (p *Plan) window(l *Load, seen []tally) (Window, error) {
	var w Window
	var all []float64
	var last error
	for i := range seen {
		all = append(all, seen[i].took...)
		w.Errors, w.Begun = w.Errors+seen[i].failed, w.Begun+seen[i].begun
		if seen[i].last != nil {
			last = seen[i].last
		}
	}
	slices.Sort(all)
	w.PerSecond, w.P50ms = float64(len(all))/p.Seconds, statistics.Quantile(0.5, all)
	w.P99ms = statistics.Quantile(0.99, all)
	switch {
	case len(all) > 0:
		return w, nil
	case last == nil:
		return w, fmt.Errorf("%s: no request was answered within %v s: try a larger --seconds", l.Name, p.Seconds)
	}
	return w, fmt.Errorf("%s: every request failed, for example: %w", l.Name, last)
}

// requestWithin is how long a request may take beyond the end of its window.
const requestWithin = 10 * time.Second
