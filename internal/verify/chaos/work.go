package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/history"
)

// work runs writers and readers on the objects of a trial and records their operations.
type work struct {
	kv    *client.Client
	store Store
	keys  int
	begun time.Time

	mu      sync.Mutex
	written []history.Op // initial writes by fill

	workers []*laborer
	done    sync.WaitGroup
}

// laborer is one client with one operation at a time.
type laborer struct {
	index  int
	kind   history.Kind
	rng    *rand.Rand
	gap    *gap // gap between its own successes
	mu     sync.Mutex
	ops    []history.Op
	failed int
}

// clientPause is the mean pause of a client between two operations.
const clientPause = 10 * time.Millisecond

// newWork stores the objects of a trial.
func (c *cluster) newWork(ctx context.Context, objects int) (*work, error) {
	kv, err := c.client(client.Options{Timeout: clientTimeout, ReadFrom: client.Spread})
	if err != nil {
		return nil, err
	}
	w := &work{kv: kv, store: Store{kv}, keys: objects, begun: time.Now()}
	if _, err := c.fill(ctx, objects, ProbeValue, w.filled); err != nil {
		kv.Close()
		return nil, err
	}
	return w, nil
}

// close ends the client of all workers.
func (w *work) close() { w.kv.Close() }

// filled records an object before the clients start.
func (w *work) filled(key string, r client.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	op := history.Op{Client: -1, Kind: history.Put, Key: key, Value: string(ProbeValue)}
	op.Return, op.Outcome, op.Version = int64(time.Since(w.begun)), history.OK, r.Version
	w.written = append(w.written, op)
}

// start runs writers and readers until ctx ends. Each completes its last operation.
func (w *work) start(ctx context.Context, writers, readers int, seed uint64) {
	for i := range writers + readers {
		l := &laborer{index: i, kind: history.Get, rng: rand.New(rand.NewPCG(seed, uint64(i))), gap: newGap(0, nil)}
		if i < writers {
			l.kind = history.Put
		}
		w.workers = append(w.workers, l)
		w.done.Go(func() { w.labor(ctx, l) })
	}
}

func (w *work) labor(ctx context.Context, l *laborer) {
	defer l.gap.end()
	for retry.Sleep(ctx, time.Duration(l.rng.ExpFloat64()*float64(clientPause))) {
		op := history.Op{Client: l.index, Kind: l.kind, Key: objectKey(l.rng.IntN(w.keys))}
		if op.Kind == history.Put {
			op.Value = fmt.Sprintf("%d of client %d", len(l.ops), l.index)
		}
		op.Call = int64(time.Since(w.begun))
		op.Result = w.store.Do(context.WithoutCancel(ctx), &op)
		op.Return = int64(time.Since(w.begun))
		l.mu.Lock()
		if op.Outcome == history.Unknown {
			l.failed++
		} else {
			l.gap.success()
		}
		l.ops = append(l.ops, op)
		l.mu.Unlock()
	}
}

// counters sums the operations of all clients of one kind.
type counters struct {
	done, failed int
	longest      time.Duration // longest time without a success of one client
}

func (w *work) counters(kind history.Kind) counters {
	var t counters
	for _, l := range w.workers {
		if l.kind != kind {
			continue
		}
		l.mu.Lock()
		t.done, t.failed = t.done+len(l.ops)-l.failed, t.failed+l.failed
		l.mu.Unlock()
		t.longest = max(t.longest, l.gap.soFar())
	}
	return t
}

// history returns all operations on the objects. It must be called after the clients have ended.
func (w *work) history() []history.Op {
	all := w.written
	for _, l := range w.workers {
		all = append(all, l.ops...)
	}
	return all
}
