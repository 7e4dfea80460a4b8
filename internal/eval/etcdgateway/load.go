package etcdgateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/eval/statistics"
)

// PlacedPrefix begins the keys that the gateway has to cache whenever they are read: writes alone would take them out.
const PlacedPrefix = "bench/placed/"

// load is one kind of requests.
type load struct {
	name, about string
	reads       bool
	do          func(ctx context.Context, c *clientv3.Client, random *rand.Rand) error
}

// probeKey does not exist: only the revision of its answer is of use.
const probeKey = "bench/probe"

func hotKey(i int) string    { return fmt.Sprintf("bench/hot/%03d", i) }
func zipfKey(i int) string   { return fmt.Sprintf("bench/zipf/%05d", i) }
func placedKey(i int) string { return fmt.Sprintf("%s%03d", PlacedPrefix, i) }
func coldKey(i int) string   { return fmt.Sprintf("bench/cold/%05d", i) }

// Names of the loads, in the order of the table.
const (
	hotRange  = "range, hot keys"
	zipfRange = "range, Zipf"
	probe     = "revision probe"
	coldPut   = "put, not placed"
	placedPut = "put, placed"
)

func (o *Options) loads() []load {
	zipf, value := statistics.NewZipf(o.ZipfKeys, zipfExponent), strings.Repeat("v", o.ValueBytes)
	get := func(key func(*rand.Rand) string) func(context.Context, *clientv3.Client, *rand.Rand) error {
		return func(ctx context.Context, c *clientv3.Client, random *rand.Rand) error {
			_, err := c.Get(ctx, key(random))
			return err
		}
	}
	put := func(key func(*rand.Rand) string) func(context.Context, *clientv3.Client, *rand.Rand) error {
		return func(ctx context.Context, c *clientv3.Client, random *rand.Rand) error {
			_, err := c.Put(ctx, key(random), value)
			return err
		}
	}
	return []load{
		{hotRange, fmt.Sprintf("%d keys", o.HotKeys), true,
			get(func(r *rand.Rand) string { return hotKey(r.IntN(o.HotKeys)) })},
		{zipfRange, fmt.Sprintf("exponent %v, %d keys", zipfExponent, o.ZipfKeys), true,
			get(func(r *rand.Rand) string { return zipfKey(zipf.Draw(r.Float64())) })},
		{probe, "a key that does not exist, limit 1", true,
			func(ctx context.Context, c *clientv3.Client, _ *rand.Rand) error {
				_, err := c.Get(ctx, probeKey, clientv3.WithLimit(1))
				return err
			}},
		{coldPut, fmt.Sprintf("%d keys", o.ZipfKeys), false,
			put(func(r *rand.Rand) string { return coldKey(r.IntN(o.ZipfKeys)) })},
		{placedPut, fmt.Sprintf("%d keys", o.HotKeys), false,
			put(func(r *rand.Rand) string { return placedKey(r.IntN(o.HotKeys)) })},
	}
}

// Window is what clients saw of one load within its time.
type Window struct {
	PerSecond float64 `json:"per_second"`
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	Errors    int     `json:"errors"`
	HitShare  float64 `json:"hit_share"` // of reads through the gateway, those that the chain answered
	CPUus     float64 `json:"cpu_us"`    // CPU time of the gateway for each request
	begun     int     // requests in all, before and after the window too
}

// warmPart is the part of a window that passes before answers count.
const warmPart = 0.1

// run has every client do one request after the other. Answers count from a while after the beginning.
func (l *load) run(ctx context.Context, conns []*clientv3.Client, o *Options, round int) (Window, error) {
	begin := time.Now()
	from := begin.Add(time.Duration(warmPart * float64(o.window())))
	until := from.Add(o.window())
	bound, cancel := context.WithDeadline(ctx, until.Add(requestWithin))
	defer cancel()
	took, failed, begun := make([][]float64, o.Clients), make([]int, o.Clients), make([]int, o.Clients)
	last := make([]error, o.Clients)
	var group sync.WaitGroup
	for i := range o.Clients {
		random := rand.New(rand.NewPCG(o.Seed, uint64(round*o.Clients+i)))
		group.Go(func() {
			for start := time.Now(); start.Before(until) && ctx.Err() == nil; {
				begun[i]++
				err := l.do(bound, conns[i%len(conns)], random)
				end := time.Now()
				switch {
				case end.Before(from) || end.After(until):
				case err != nil:
					failed[i], last[i] = failed[i]+1, err
				default:
					took[i] = append(took[i], float64(end.Sub(start))/float64(time.Millisecond))
				}
				start = end
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return Window{}, ctx.Err()
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	w := Window{
		PerSecond: float64(len(all)) / o.Seconds, P50ms: statistics.Quantile(0.5, all), P99ms: statistics.Quantile(0.99, all),
	}
	for i := range failed {
		w.Errors, w.begun = w.Errors+failed[i], w.begun+begun[i]
	}
	if len(all) == 0 {
		i := slices.IndexFunc(last, func(err error) bool { return err != nil })
		if i < 0 {
			return w, fmt.Errorf("%s: no request was answered within %v s: try a larger --seconds", l.name, o.Seconds)
		}
		return w, fmt.Errorf("%s: every request failed, for example: %w", l.name, last[i])
	}
	return w, nil
}

// requestWithin is how long a request may take beyond the end of its window.
const requestWithin = 10 * time.Second
