package gatewaycheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
)

// Workload says what clients do.
type Workload struct {
	Prefix  string
	Keys    int // used at a time, at most 100
	Clients int
	Ops     int           // of each client; 0: until the context ends
	KeyOps  int           // operations on all keys before others are used, so that histories stay short; 0: any number
	Timeout time.Duration // of an operation
	Settle  time.Duration // of watches after the last operation; 0: they may end early
	Seed    uint64
	Locks   int  // leases of locks and elections, two for each of these; 0: etcd's services for them are not used
	Ways    bool // reads of keys go all ways: through transactions and serializable ones too
	// Told, if set, is called after each operation.
	Told func(*Op)
	// Ended, if set, is called after the last operation, before watches settle.
	Ended func()
}

// Kind is what an operation does.
type Kind uint8

// The kinds of operations.
const (
	Get Kind = iota
	Put
	Delete
	Update // a transaction: put if the revision is as it was seen, else get
	Pair   // a transaction that puts two keys
	Span   // a deletion of two keys as a range
	List   // a range over all keys in use
	Leased // a put under a lease of its own, which may run out
	Revoke // the end of that lease
	// Of etcd's services for locks and elections.
	Lock
	Unlock
	Campaign
	Proclaim
	Resign
	Leader
	Observe
	kinds
)

func (k Kind) String() string {
	return [...]string{"get", "put", "delete", "update", "pair", "span", "list", "leased", "revoke", "lock", "unlock", "campaign",
		"proclaim", "resign", "leader", "observe"}[k]
}

// Way is how a Get or List reads.
type Way uint8

// The ways.
const (
	Linearizable Way = iota
	Serializable     // it may be stale, but what it shows is revealed
	InTxn            // a transaction that only reads
	Compared         // one that also compares
	ways
)

func (w Way) String() string {
	return [...]string{"", "serializable ", "transaction's ", "comparing transaction's "}[w]
}

// leaseSeconds is the time to live of leases: the least that etcd grants by default.
const leaseSeconds = 2

// Op is one operation as its client saw it.
type Op struct {
	Client       int
	Kind         Kind
	Way          Way    // of a Get or List
	Key          string // of a List: the prefix; of a Leader and Observe: the election, until the answer names a key
	Also         string // the other key of a Pair or Span
	Value        string // what is written; of a Revoke: what was written under the lease
	Call, Return int64
	Floor        int64 // the newest revision that was revealed before
	Err          error // the outcome is unknown
	Rev          int64 // header.revision
	Held         bool  // the put was made, or something was deleted
	Deleted      int64
	Seen         bool // the answer shows the key
	Found        KV
	Listed       map[string]KV
	lease        clientv3.LeaseID
	leader       *v3electionpb.LeaderKey // of a Campaign, and of what follows it
}

// KV is a key as an answer shows it; Mod is 0 if it does not exist.
type KV struct {
	Value                string
	Create, Mod, Version int64
	Lease                int64
}

func kvOf(kv *mvccpb.KeyValue) KV {
	return KV{string(kv.Value), kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease}
}

func (o *Op) String() string {
	return fmt.Sprintf("client %d: %v%v %s %s %q, header %d (%d was revealed), found %+v %v, held %v, %d deleted, error %v", o.Client,
		o.Way, o.Kind, o.Key, o.Also, o.Value, o.Rev, o.Floor, o.Found, o.Listed, o.Held, o.Deleted, o.Err)
}

// keys are the single keys that an operation is about.
func (o *Op) keys() []string {
	switch o.Kind {
	case List:
		return nil
	case Pair, Span:
		return []string{o.Key, o.Also}
	}
	return []string{o.Key}
}

// deletes reports whether the operation removes keys.
func (o *Op) deletes() bool { return o.Kind == Delete || o.Kind == Span }

// puts reports whether the operation writes its value.
func (o *Op) puts() bool {
	return o.Kind == Put || o.Kind == Update || o.Kind == Pair || o.Kind == Leased || o.Kind == Campaign || o.Kind == Proclaim
}

// run is a workload under way.
type run struct {
	Workload
	gateways []*clientv3.Client
	began    time.Time
	revealed atomic.Int64
	begun    atomic.Int64 // operations

	mu  sync.Mutex
	ops []Op
}

// Record is what clients and watches saw.
type Record struct {
	Ops     []Op
	Watches [][]Event // of each gateway
	Late    []string  // watches that did not come to the present
}

// Event is a change of a key.
type Event struct {
	Key    string
	Rev    int64
	Delete bool
	Value  string
}

// follower is a watch at one gateway.
type follower struct {
	client *clientv3.Client
	events []Event
	newest atomic.Int64
}

// Run runs the workload over all gateways, with a watch at each.
func (w Workload) Run(ctx context.Context, gateways *Gateways) *Record {
	r := &run{Workload: w, gateways: gateways.clients, began: time.Now()}
	record := new(Record)
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	var watches, clients sync.WaitGroup
	var followers []*follower
	for _, g := range gateways.clients {
		f := &follower{client: g}
		followers = append(followers, f)
		watches.Go(func() { r.watch(watching, f) })
	}
	for i := range w.Clients {
		clients.Go(func() { r.client(ctx, i) })
	}
	clients.Wait()
	if w.Ended != nil {
		w.Ended()
	}
	if w.Settle > 0 {
		record.Late = r.settle(followers)
	}
	stop()
	watches.Wait()
	for _, f := range followers {
		record.Watches = append(record.Watches, f.events)
	}
	record.Ops = r.ops
	return record
}

// settle waits until every watch has shown the newest write that was acknowledged.
func (r *run) settle(followers []*follower) (late []string) {
	newest := int64(0)
	for i := range r.ops {
		if o := &r.ops[i]; o.Err == nil && o.Held && o.puts() {
			newest = max(newest, o.Rev)
		}
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.Now().Add(r.Settle); ; <-ticker.C {
		behind := 0
		for _, f := range followers {
			if f.newest.Load() < newest {
				behind++
			}
		}
		if behind == 0 {
			return nil
		}
		if time.Now().After(limit) {
			break
		}
	}
	for i, f := range followers {
		if shown := f.newest.Load(); shown < newest {
			late = append(late, fmt.Sprintf("the watch of server %d is at %d, and %d was acknowledged %v ago", i, shown, newest, r.Settle))
		}
	}
	return late
}

func (r *run) reveal(rev int64) {
	for {
		old := r.revealed.Load()
		if rev <= old || r.revealed.CompareAndSwap(old, rev) {
			return
		}
	}
}

// watch follows all keys from the first revision on, through any number of streams.
func (r *run) watch(ctx context.Context, f *follower) {
	for next := int64(1); ctx.Err() == nil; {
		within, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for answer := range f.client.Watch(within, r.Prefix, clientv3.WithPrefix(), clientv3.WithRev(next)) {
			next = begins(next, &answer)
			for _, e := range answer.Events {
				f.events = append(f.events, eventOf(e))
				r.reveal(e.Kv.ModRevision)
				next = e.Kv.ModRevision + 1
				f.newest.Store(e.Kv.ModRevision)
			}
		}
		cancel()
	}
}

func eventOf(e *clientv3.Event) Event {
	return Event{string(e.Kv.Key), e.Kv.ModRevision, e.Type == clientv3.EventTypeDelete, string(e.Kv.Value)}
}

// draw chooses a client's next operation. last is its operation before.
func (r *run) draw(rng *rand.Rand, client, number int, last *Op) Op {
	if last.Kind == Leased && last.Err == nil && rng.IntN(2) == 0 {
		return Op{Client: client, Kind: Revoke, Key: last.Key, Value: last.Value, lease: last.lease}
	}
	prefix := r.Prefix
	if r.KeyOps > 0 {
		prefix += fmt.Sprintf("%d.", r.begun.Add(1)/int64(r.KeyOps))
	}
	op := Op{Client: client, Value: fmt.Sprintf("%d.%d", client, number)}
	if r.Locks > 0 && rng.IntN(4) == 0 {
		r.drawService(rng, last, &op)
		return op
	}
	key := rng.IntN(r.Keys)
	op.Key = fmt.Sprintf("%s%02d", prefix, key)
	if rng.IntN(10) >= 6 {
		op.Kind = Kind(1 + rng.IntN(int(Revoke)-1))
	}
	switch op.Kind {
	case Pair, Span:
		op.Also = fmt.Sprintf("%s%02d", prefix, key+1)
	case List:
		op.Key = prefix
	}
	if r.Ways && (op.Kind == Get || op.Kind == List) && rng.IntN(2) == 0 {
		op.Way = Way(rng.IntN(int(ways)))
	}
	return op
}

func (r *run) client(ctx context.Context, number int) {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(number)))
	known := make(map[string]int64) // revisions that this client saw
	var op Op
	for i := 0; ctx.Err() == nil && (r.Ops == 0 || i < r.Ops); i++ {
		op = r.draw(rng, number, i, &op)
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
		if r.Told != nil {
			r.Told(&op)
		}
		r.mu.Unlock()
	}
}

// do asks a gateway, and fills in what it answers.
func (o *Op) do(ctx context.Context, g *clientv3.Client, known int64) error {
	switch o.Kind {
	case Get, List:
		return o.read(ctx, g, known)
	case Update, Pair:
		return o.transact(ctx, g, known)
	case Lock, Unlock:
		return o.lock(ctx, g)
	case Campaign, Proclaim, Resign, Leader, Observe:
		return o.elect(ctx, g)
	case Leased:
		lease, err := g.Grant(ctx, leaseSeconds)
		if err != nil {
			return err
		}
		o.lease = lease.ID
		fallthrough
	case Put:
		answer, err := g.Put(ctx, o.Key, o.Value, clientv3.WithLease(o.lease))
		if err != nil {
			return err
		}
		o.Rev, o.Held = answer.Header.Revision, true
	case Delete, Span:
		var options []clientv3.OpOption
		if o.Kind == Span {
			options = append(options, clientv3.WithRange(o.Also+"\x00"))
		}
		answer, err := g.Delete(ctx, o.Key, options...)
		if err != nil {
			return err
		}
		o.Rev, o.Deleted, o.Held = answer.Header.Revision, answer.Deleted, answer.Deleted > 0
	case Revoke:
		answer, err := g.Revoke(ctx, o.lease)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it ran out, which has no header
			o.Rev = o.Floor
			return nil
		}
		if err != nil {
			return err
		}
		o.Rev = answer.Header.Revision
	}
	return nil
}

func (o *Op) read(ctx context.Context, g *clientv3.Client, known int64) error {
	var options []clientv3.OpOption
	if o.Kind == List {
		options = append(options, clientv3.WithPrefix())
	}
	if o.Way == Serializable {
		options = append(options, clientv3.WithSerializable())
	}
	kvs, err := o.ask(ctx, g, clientv3.OpGet(o.Key, options...), known)
	if err != nil {
		return err
	}
	if o.Kind == Get {
		o.found(kvs)
		return nil
	}
	o.Listed = make(map[string]KV)
	for _, kv := range kvs {
		o.Listed[string(kv.Key)] = kvOf(kv)
	}
	return nil
}

// ask reads in the operation's way.
func (o *Op) ask(ctx context.Context, g *clientv3.Client, get clientv3.Op, known int64) ([]*mvccpb.KeyValue, error) {
	if o.Way != InTxn && o.Way != Compared {
		answer, err := g.Do(ctx, get)
		if err != nil {
			return nil, err
		}
		o.Rev = answer.Get().Header.Revision
		return answer.Get().Kvs, nil
	}
	txn := g.Txn(ctx)
	if o.Way == Compared {
		txn = txn.If(clientv3.Compare(clientv3.ModRevision(o.Key), "=", known))
	}
	answer, err := txn.Then(get).Else(get).Commit()
	if err != nil {
		return nil, err
	}
	o.Rev = answer.Header.Revision
	return answer.Responses[0].GetResponseRange().Kvs, nil
}

func (o *Op) transact(ctx context.Context, g *clientv3.Client, known int64) error {
	txn := g.Txn(ctx)
	if o.Kind == Pair {
		txn = txn.Then(clientv3.OpPut(o.Key, o.Value), clientv3.OpPut(o.Also, o.Value))
	} else {
		txn = txn.If(clientv3.Compare(clientv3.ModRevision(o.Key), "=", known)).
			Then(clientv3.OpPut(o.Key, o.Value)).Else(clientv3.OpGet(o.Key))
	}
	answer, err := txn.Commit()
	if err != nil {
		return err
	}
	o.Rev, o.Held = answer.Header.Revision, answer.Succeeded
	if !o.Held {
		o.found(answer.Responses[0].GetResponseRange().Kvs)
	}
	return nil
}
