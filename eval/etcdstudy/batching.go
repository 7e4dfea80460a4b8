package etcdstudy

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Batch says how puts are put together.
type Batch struct {
	Size  int           // keys of a transaction, 1 to [MaxBatch]
	Delay time.Duration // the longest that a put waits for others; 0: 5 ms
	Merge bool          // leave out puts that a later one of the same batch replaces
	Zipf  float64       // exponent of the keys' popularity; 0: uniform
}

func (b Batch) validate() error {
	if b.Size < 1 || b.Size > MaxBatch || b.Delay < 0 || b.Zipf < 0 {
		return wrongOption("batches of %d keys after %v with exponent %g: want 1 to %d keys, and nothing below 0",
			b.Size, b.Delay, b.Zipf, MaxBatch)
	}
	return nil
}

// MaxBatch is the most that etcd accepts in one transaction, by default.
const MaxBatch = 128

const batchDelay = 5 * time.Millisecond

// BatchSizes are those that are compared.
var BatchSizes = []int{1, 2, 4, 8, 16, 32}

// Delays are how long puts are held back, of keys with Zipf's distribution, in the hope that others
// will replace them.
var Delays = []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond}

// ZipfExponent is that of the hot keys.
const ZipfExponent = 0.99

// BatchCell is one measurement of puts in batches.
type BatchCell struct {
	Series     string  `json:"series"` // the cells that this one is compared with: see [Batching]
	Size       int     `json:"size"`
	DelayMs    float64 `json:"delay_ms"`
	Merge      bool    `json:"merge"`
	Zipf       float64 `json:"zipf"`
	Clients    int     `json:"clients"`
	PerSecond  float64 `json:"per_second"`      // puts that were answered
	Txns       float64 `json:"txns_per_second"` // transactions
	Sent       float64 `json:"sent_per_second"` // puts in these
	Replaced   float64 `json:"replaced"`        // part of the puts that a later one replaced, 0 to 1
	Errors     int     `json:"errors"`
	ClientCPUs float64 `json:"client_cpus"`
	Latency
}

// PutBatches measures puts, a batcher for each of the harness's connections.
func (r *Harness) PutBatches(ctx context.Context, b Batch, l Load) (*BatchCell, error) {
	l = l.withDefaults()
	if err := errors.Join(l.validate(), b.validate()); err != nil {
		return nil, err
	}
	if b.Delay == 0 {
		b.Delay = batchDelay
	}
	ctx, stop := context.WithCancel(ctx)
	var txns, sent, replaced counter
	batchers := make([]*Batcher, len(r.conns))
	for i, conn := range r.conns {
		batchers[i] = &Batcher{Size: b.Size, Delay: b.Delay, Merge: b.Merge, Commit: func(pairs []Pair, others int) error {
			err := commit(ctx, conn, pairs)
			if err == nil {
				txns.add(1)
				sent.add(len(pairs))
				replaced.add(others)
			}
			return err
		}}
	}
	defer func() {
		stop()
		for _, batcher := range batchers {
			batcher.Wait()
		}
	}()
	loop, err := runClosed(ctx, batchClients(batchers, b, l), 1, l.Duration,
		func() error { txns.begin(); sent.begin(); replaced.begin(); return nil },
		func() error { txns.end(); sent.end(); replaced.end(); return nil })
	if err != nil {
		return nil, err
	}
	cell := &BatchCell{
		Size: b.Size, DelayMs: float64(b.Delay) / float64(time.Millisecond), Merge: b.Merge, Zipf: b.Zipf, Clients: l.Clients,
		PerSecond: loop.perSecond(
			0), Txns: float64(txns.counted()) / loop.seconds, Sent: float64(sent.counted()) / loop.seconds,
		Errors: loop.errors, ClientCPUs: loop.cpus, Latency: loop.Latency,
	}
	if left := replaced.counted(); left > 0 {
		cell.Replaced = float64(left) / float64(left+sent.counted())
	}
	return cell, nil
}

// counter counts between begin and end.
type counter struct {
	all         atomic.Int64
	first, last int64
}

func (c *counter) add(n int)      { c.all.Add(int64(n)) }
func (c *counter) begin()         { c.first = c.all.Load() }
func (c *counter) end()           { c.last = c.all.Load() }
func (c *counter) counted() int64 { return c.last - c.first }

// commit is one transaction of puts; a single one goes as etcd's clients send it.
func commit(ctx context.Context, conn *clientv3.Client, pairs []Pair) error {
	if len(pairs) == 1 {
		_, err := conn.Put(ctx, pairs[0].Key, pairs[0].Value)
		return err
	}
	ops := make([]clientv3.Op, len(pairs))
	for i, p := range pairs {
		ops[i] = clientv3.OpPut(p.Key, p.Value)
	}
	_, err := conn.Txn(ctx).Then(ops...).Commit()
	return err
}

// batchClients put keys at random, each through a batcher of its own or shared with others.
func batchClients(batchers []*Batcher, b Batch, l Load) []operation {
	names, value := keys(keySpace, l.KeyBytes), strings.Repeat("v", l.ValueBytes)
	weights := statistics.ZipfParts(keySpace, b.Zipf)
	clients := make([]operation, l.Clients)
	for i := range clients {
		batcher, draw := batchers[i%len(batchers)], distuv.NewCategorical(weights, rand.NewPCG(l.Seed, uint64(i)))
		clients[i] = func(ctx context.Context) (int, error) {
			return 0, batcher.Put(ctx, Pair{names[int(draw.Rand())], value})
		}
	}
	return clients
}

// BatchingOptions are the options of [Batching].
type BatchingOptions struct {
	Harness  HarnessOptions // Members 0: 3; Conns 0: 10, so that a machine has enough clients to fill a batch
	Load     Load
	Sizes    []int           // of batches; none: [BatchSizes]
	Delays   []time.Duration // none: [Delays]
	Progress Progress        // may be nil
}

// BatchingResult has the gain and the cost of batches.
type BatchingResult struct {
	Settings []string    `json:"settings"`
	Seed     uint64      `json:"seed"`
	Cells    []BatchCell `json:"cells"`
}

// Series of [Batching].
const (
	SeriesFull   = "full"   // uniform keys, all clients: the gain of batches
	SeriesLight  = "light"  // uniform keys, one client for each connection: the cost of waiting in vain
	SeriesMerged = "merged" // hot keys, overwrites merged
	SeriesDally  = "dally"  // hot keys, batches as large as etcd takes them, held back for longer and longer
)

const batchingConns = 10

// Series lists the series that [Batching] measures.
func (o *BatchingOptions) series() (names []string, batches []Batch) {
	add := func(name string, b Batch) { names, batches = append(names, name), append(batches, b) }
	for _, size := range o.Sizes {
		add(SeriesFull, Batch{Size: size})
		add(SeriesLight, Batch{Size: size})
		add(SeriesMerged, Batch{Size: size, Merge: true, Zipf: ZipfExponent})
	}
	for _, delay := range o.Delays {
		add(SeriesDally, Batch{Size: MaxBatch, Delay: delay, Merge: true, Zipf: ZipfExponent})
	}
	return names, batches
}

// Batching measures one cluster with batches of several sizes and delays.
func Batching(ctx context.Context, o BatchingOptions) (result *BatchingResult, err error) {
	if o.Harness.Members == 0 {
		o.Harness.Members = 3
	}
	if o.Harness.Conns == 0 {
		o.Harness.Conns = batchingConns
	}
	if len(o.Sizes) == 0 {
		o.Sizes = BatchSizes
	}
	if len(o.Delays) == 0 {
		o.Delays = Delays
	}
	names, batches := o.series()
	check := []error{o.Load.withDefaults().validate()}
	for _, b := range batches {
		check = append(check, b.validate())
	}
	if err := errors.Join(check...); err != nil {
		return nil, err
	}
	r, err := OpenHarness(ctx, o.Harness)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	result = &BatchingResult{Settings: r.Settings, Seed: o.Load.Seed}
	for i, b := range batches {
		l := o.Load
		if names[i] == SeriesLight {
			l.Clients = o.Harness.Conns
		}
		o.Progress.say("%s: batches of %d", names[i], b.Size)
		cell, err := r.PutBatches(ctx, b, l)
		if err != nil {
			return nil, err
		}
		cell.Series = names[i]
		result.Cells = append(result.Cells, *cell)
	}
	return result, nil
}
