package gatewaycheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Workload says what clients do.
type Workload struct {
	Prefix  string
	Keys    int
	Clients int
	Ops     int           // of each client; 0: until the context ends
	Timeout time.Duration // of an operation
	Seed    uint64
}

// Kind is what an operation does.
type Kind uint8

// The kinds of operations.
const (
	Get Kind = iota
	Put
	Delete
	Update // a transaction: put if the revision is as it was seen, else get
	kinds
)

func (k Kind) String() string { return [...]string{"get", "put", "delete", "update"}[k] }

// Op is one operation as its client saw it.
type Op struct {
	Client       int
	Kind         Kind
	Key, Value   string // Value: what is written
	Call, Return int64
	Floor        int64 // the newest revision that was revealed before
	Err          error // the outcome is unknown
	Rev          int64 // header.revision
	Held         bool  // Update: the put was made
	Seen         bool  // the answer shows the key
	Found        KV
}

// KV is a key as an answer shows it; Mod is 0 if it does not exist.
type KV struct {
	Value                string
	Create, Mod, Version int64
}

func (o *Op) String() string {
	return fmt.Sprintf("client %d: %v %s %q, header %d (%d was revealed), found %+v, held %v, error %v", o.Client, o.Kind, o.Key, o.Value,
		o.Rev, o.Floor, o.Found, o.Held, o.Err)
}

// run is a workload under way.
type run struct {
	Workload
	gateways []*clientv3.Client
	began    time.Time
	revealed atomic.Int64

	mu  sync.Mutex
	ops []Op
}

// Record is what clients and watches saw.
type Record struct {
	Ops     []Op
	Watches [][]Event // of each gateway
}

// Event is a change of a key.
type Event struct {
	Key    string
	Rev    int64
	Delete bool
	Value  string
}

// Run runs the workload over all gateways, with a watch at each.
func (w Workload) Run(ctx context.Context, gateways []*clientv3.Client) *Record {
	r := &run{Workload: w, gateways: gateways, began: time.Now()}
	record := &Record{Watches: make([][]Event, len(gateways))}
	watching, stop := context.WithCancel(context.Background())
	var watches, clients sync.WaitGroup
	for i, g := range gateways {
		watches.Go(func() { record.Watches[i] = r.watch(watching, g) })
	}
	for i := range w.Clients {
		clients.Go(func() { r.client(ctx, i) })
	}
	clients.Wait()
	stop()
	watches.Wait()
	record.Ops = r.ops
	return record
}

func (r *run) reveal(rev int64) {
	for {
		old := r.revealed.Load()
		if rev <= old || r.revealed.CompareAndSwap(old, rev) {
			return
		}
	}
}

// watch follows all keys from the first revision on, through any number of streams: the client resumes.
func (r *run) watch(ctx context.Context, g *clientv3.Client) (events []Event) {
	for answer := range g.Watch(clientv3.WithRequireLeader(ctx), r.Prefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, e := range answer.Events {
			events = append(events, Event{string(e.Kv.Key), e.Kv.ModRevision, e.Type == clientv3.EventTypeDelete, string(e.Kv.Value)})
			r.reveal(e.Kv.ModRevision)
		}
	}
	return events
}

func (r *run) client(ctx context.Context, number int) {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(number)))
	known := make(map[string]int64) // revisions that this client saw
	for i := 0; ctx.Err() == nil && (r.Ops == 0 || i < r.Ops); i++ {
		op := Op{Client: number, Key: fmt.Sprintf("%s%d", r.Prefix, rng.IntN(r.Keys)), Value: fmt.Sprintf("%d.%d", number, i)}
		if d := rng.IntN(10); d < 6 {
			op.Kind = Get
		} else {
			op.Kind = Kind(1 + rng.IntN(int(kinds)-1))
		}
		g := r.gateways[rng.IntN(len(r.gateways))]
		within, cancel := context.WithTimeout(context.Background(), r.Timeout)
		op.Floor, op.Call = r.revealed.Load(), int64(time.Since(r.began))
		op.Err = op.do(within, g, known[op.Key])
		op.Return = int64(time.Since(r.began))
		cancel()
		if op.Err == nil {
			r.reveal(op.Rev)
			if op.Seen {
				known[op.Key] = op.Found.Mod
			}
		}
		r.mu.Lock()
		r.ops = append(r.ops, op)
		r.mu.Unlock()
	}
}

// do asks a gateway, and fills in what it answers.
func (o *Op) do(ctx context.Context, g *clientv3.Client, known int64) error {
	switch o.Kind {
	case Get:
		answer, err := g.Get(ctx, o.Key)
		if err != nil {
			return err
		}
		o.Rev = answer.Header.Revision
		o.found(answer.Kvs)
	case Put:
		answer, err := g.Put(ctx, o.Key, o.Value)
		if err != nil {
			return err
		}
		o.Rev, o.Held = answer.Header.Revision, true
	case Delete:
		answer, err := g.Delete(ctx, o.Key)
		if err != nil {
			return err
		}
		o.Rev, o.Held = answer.Header.Revision, answer.Deleted > 0
	case Update:
		answer, err := g.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(o.Key), "=", known)).
			Then(clientv3.OpPut(o.Key, o.Value)).Else(clientv3.OpGet(o.Key)).Commit()
		if err != nil {
			return err
		}
		o.Rev, o.Held = answer.Header.Revision, answer.Succeeded
		if !o.Held {
			o.found(answer.Responses[0].GetResponseRange().Kvs)
		}
	}
	return nil
}
