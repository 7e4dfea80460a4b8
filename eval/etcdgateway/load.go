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

	"github.com/netcraq/netcraq/eval/statistics"
)

// PlacedPrefix begins the keys that the gateway has to cache whenever they are read: writes alone would take them out.
const PlacedPrefix = "bench/placed/"

// load is one kind of requests.
type load struct {
	name, about string
	reads       bool
	txn         bool  // a write is a Txn
	limit       int64 // of reads; 0: none
	key         func(random *rand.Rand) string
	value       string // of writes
}

// do sends a request through etcd's own client.
func (l *load) do(ctx context.Context, c *clientv3.Client, random *rand.Rand) (err error) {
	key := l.key(random)
	switch {
	case l.reads:
		_, err = c.Get(ctx, key, clientv3.WithLimit(l.limit))
	case l.txn:
		// Kubernetes' writes have this form. The condition holds, since all keys exist.
		_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
			Then(clientv3.OpPut(key, l.value)).Else(clientv3.OpGet(key)).Commit()
	default:
		_, err = c.Put(ctx, key, l.value)
	}
	return err
}

// direct returns the load for clients of etcd. They write to keys of their own: a gateway does not cache a key that was
// written without it.
func (l *load) direct() *load {
	d := *l
	if !l.reads {
		d.key = func(random *rand.Rand) string { return directPrefix + l.key(random) }
	}
	return &d
}

const directPrefix = "direct/"

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
	coldTxn   = "txn, not placed"
	placedPut = "put, placed"
)

var names = []string{hotRange, zipfRange, probe, coldPut, coldTxn, placedPut}

func (o *Options) loads() []load {
	zipf, value := statistics.NewZipf(o.ZipfKeys, zipfExponent), strings.Repeat("v", o.ValueBytes)
	one := func(key func(int) string, n int) func(*rand.Rand) string {
		return func(random *rand.Rand) string { return key(random.IntN(n)) }
	}
	return []load{
		{name: hotRange, about: fmt.Sprintf("%d keys", o.HotKeys), reads: true, key: one(hotKey, o.HotKeys)},
		{name: zipfRange, about: fmt.Sprintf("exponent %v, %d keys", zipfExponent, o.ZipfKeys), reads: true,
			key: func(random *rand.Rand) string { return zipfKey(zipf.Draw(random.Float64())) }},
		{name: probe, about: "a key that does not exist, limit 1", reads: true, limit: 1,
			key: func(*rand.Rand) string { return probeKey }},
		{name: coldPut, about: fmt.Sprintf("%d keys", o.ZipfKeys), key: one(coldKey, o.ZipfKeys), value: value},
		{name: coldTxn, about: fmt.Sprintf("%d keys, put if the key exists, else get", o.ZipfKeys), txn: true,
			key: one(coldKey, o.ZipfKeys), value: value},
		{name: placedPut, about: fmt.Sprintf("%d keys", o.HotKeys), key: one(placedKey, o.HotKeys), value: value},
	}
}

// Window is what clients saw of one load within its time.
type Window struct {
	PerSecond float64 `json:"per_second"`
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	Errors    int     `json:"errors"`
	// HitShare is the part of the reads through the gateway that the chain answered; after writes of placed keys, the part
	// of these keys that the chain then answers.
	HitShare float64 `json:"hit_share"`
	// NearbyShare is the part of HitShare without the network: by a node on the gateway's machine.
	NearbyShare float64 `json:"nearby_share"`
	CPU         CPU     `json:"cpu_us"`
	begun       int     // requests in all, before and after the window too
}

// warmPart is the part of a window that passes before answers count.
const warmPart = 0.1

// bounds are when answers count, in a window that begins then.
func (o *Options) bounds(begin time.Time) (from, until time.Time) {
	from = begin.Add(time.Duration(warmPart * float64(o.length())))
	return from, from.Add(o.length())
}

// run has every client do one request after the other. Answers count from a while after the beginning.
func (l *load) run(ctx context.Context, conns []*clientv3.Client, o *Options, round int) (Window, error) {
	begin := time.Now()
	from, until := o.bounds(begin)
	bound, cancel := context.WithDeadline(ctx, until.Add(requestWithin))
	defer cancel()
	seen := make([]tally, o.Clients)
	var group sync.WaitGroup
	for i := range o.Clients {
		random := rand.New(rand.NewPCG(o.Seed, uint64(round*o.Clients+i)))
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
	return o.window(l, seen)
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
func (o *Options) window(l *load, seen []tally) (Window, error) {
	var w Window
	var all []float64
	var last error
	for i := range seen {
		all = append(all, seen[i].took...)
		w.Errors, w.begun = w.Errors+seen[i].failed, w.begun+seen[i].begun
		if seen[i].last != nil {
			last = seen[i].last
		}
	}
	slices.Sort(all)
	w.PerSecond, w.P50ms = float64(len(all))/o.Seconds, statistics.Quantile(0.5, all)
	w.P99ms = statistics.Quantile(0.99, all)
	switch {
	case len(all) > 0:
		return w, nil
	case last == nil:
		return w, fmt.Errorf("%s: no request was answered within %v s: try a larger --seconds", l.name, o.Seconds)
	}
	return w, fmt.Errorf("%s: every request failed, for example: %w", l.name, last)
}

// requestWithin is how long a request may take beyond the end of its window.
const requestWithin = 10 * time.Second
