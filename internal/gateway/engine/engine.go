package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// Options say where etcd and the chain are.
type Options struct {
	Etcd      *grpc.ClientConn
	Chain     objects.Chain
	Nearby    objects.Nearby // nil: all reads of the chain use the network
	Nodes     Nodes          // nil: only this gateway's own clients count
	ChainName string         // the same for all gateways with this chain; empty: not known yet, see [Engine.NameChain]
	Placement placement.Options
	About     string        // this gateway, for operators
	Lease     time.Duration // of a session, in whole seconds; 0: DefaultLease
	Later     bool          // etcd does not answer now: do not wait for it
	Log       *slog.Logger
}

// DefaultLease is how long others wait for a gateway that is gone before they place keys again.
const DefaultLease = 5 * time.Second

const (
	// OwnPrefix begins the gateways' own keys in etcd.
	OwnPrefix = "/netcraq/gateway/"
	// ownLease is the upper half of the numbers of sessions' leases, which etcd itself hardly gives to others.
	ownLease = 0x6e71_6377
	// DirectoryFormat is that of the gateways' own keys.
	DirectoryFormat = "5"
	// tick is how often a gateway does its periodic work.
	tick = 50 * time.Millisecond
	// pushEvery is the least time between two pushes. What waits meanwhile shares the next one: a push costs the nodes about as much
	// as etcd's members take for a write.
	pushEvery = time.Millisecond
	// patience is how long a write may wait for the chain before the gateway does without it.
	patience = 1500 * time.Millisecond
)

// storePrefix begins the names of an etcd's objects in the chain.
func storePrefix(cluster uint64, timeline string) string {
	if timeline == "" {
		return fmt.Sprintf("etcd/%x/", cluster)
	}
	return fmt.Sprintf("etcd/%x.%s/", cluster, timeline)
}

// OwnEnd is the first key behind those of the gateways.
var OwnEnd = behind(OwnPrefix)

// OwnLease reports whether a lease is that of a gateway's session, by its number.
func OwnLease(id int64) bool { return id>>32 == ownLease }

// newLease draws the number of a lease.
func newLease() int64 {
	var low [4]byte
	rand.Read(low[:]) // never fails
	return ownLease<<32 | int64(binary.BigEndian.Uint32(low[:]))
}

// Engine is a running gateway.
type Engine struct {
	o       Options
	store   *objects.Store
	ctx     context.Context // until Close
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	header  atomic.Pointer[pb.ResponseHeader] // the last one that etcd sent
	until   atomic.Int64                      // the session's lease lasts until then at least, on the boot clock
	reads   readers
	usage   usage
	did     did
	places  places
	packing packed
	own     ownWrites
	txns    *Txns

	identity
	failed     chan error
	identified chan struct{} // closed when identity and store are valid
	trouble    trouble
	newest     atomic.Int64 // revision that etcd had for certain

	ended  context.Context // until Close
	closed context.CancelFunc
	open   chan struct{} // closed when the cache has ended and may begin anew

	withdrawn sync.Once
	gone      chan struct{} // closed when the cache has ended for good
	why       error         // valid after gone

	checking sync.Mutex // by check, so that the cache does not end before newTimeline does; locked before mu

	mu      sync.Mutex // of all below
	auth    *core.Authentication
	core    *core.Gateway
	last    uint64
	replies map[uint64]chan core.Reply
	reveals map[uint64]chan struct{}
	calls   map[uint64]time.Time // calls of the chain that clients wait for, and since when
	leases  map[string]*lease
	tenure  core.Tenure        // of the newest lease
	tenured string             // the newest lease
	looked  int64              // until then, on the boot clock, the last look at the directory counts
	watch   context.CancelFunc // of the directory
	pushed  time.Time          // when the last push began, or will
}

// Close ends the session, so that others need not wait for it.
func (e *Engine) Close() {
	e.stop()
	e.closed()
	e.tasks.Wait()
	e.mu.Lock()
	leases := e.leases
	e.leases = nil
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, l := range leases {
		if id := l.id.Load(); id != 0 {
			_, _ = pb.NewLeaseClient(e.o.Etcd).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id}) // else it runs out
		}
	}
}

// do lets the core decide something, and performs what it wants done.
func (e *Engine) do(decide func(*core.Gateway)) {
	e.mu.Lock()
	decide(e.core)
	var later []func()
	for effects := e.core.Effects(); len(effects) > 0; effects = e.core.Effects() {
		for _, effect := range effects {
			if f := e.perform(effect); f != nil {
				later = append(later, f)
			}
		}
	}
	e.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// perform notes an effect and returns what is to be done without the lock.
func (e *Engine) perform(effect core.Effect) func() {
	switch effect := effect.(type) {
	case core.ChainCall:
		return e.callChain(effect)
	case core.EtcdCall:
		l := e.lease(effect.Lease)
		return func() { go e.callEtcd(effect, l) }
	case core.WatchDirectory:
		if e.watch != nil {
			e.watch()
		}
		ctx, cancel := context.WithCancel(e.ctx)
		e.watch = cancel
		return func() { go e.watchDirectory(ctx, effect.From) }
	case core.EndLease:
		l := e.leases[effect.Lease]
		delete(e.leases, effect.Lease)
		if l == nil {
			return nil
		}
		return func() { go e.endLease(l) }
	case core.Reply:
		if c := e.replies[effect.ID]; c != nil {
			delete(e.replies, effect.ID)
			c <- effect
		}
	case core.Revealed:
		if c := e.reveals[effect.ID]; c != nil {
			delete(e.reveals, effect.ID)
			close(c)
		}
	case core.Placed:
		return func() { e.placed(effect) }
	}
	return nil
}

func (e *Engine) callChain(c core.ChainCall) func() {
	now := time.Now()
	if c.Op.Kind == core.Max || c.Op.Kind == core.SetBit {
		e.calls[c.ID] = now
	}
	call := func() {
		var while func() bool
		if c.Op.Kind == core.Max {
			while = func() bool {
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.core.Timely(c.Op.Rev)
			}
		}
		e.did.op(&c.Op)
		e.store.Do(e.ctx, &c.Op, while, func(a core.Answer) {
			e.do(func(g *core.Gateway) {
				delete(e.calls, c.ID)
				g.Answered(c.ID, a)
			})
		})
	}
	if c.Op.Kind != core.Max {
		return call
	}
	wait := e.pushed.Add(pushEvery).Sub(now)
	e.pushed = now.Add(max(wait, 0))
	if wait <= 0 {
		return call
	}
	return func() {
		time.AfterFunc(wait, func() {
			e.mu.Lock()
			c.Op.Rev = max(c.Op.Rev, e.core.Newest())
			e.mu.Unlock()
			call()
		})
	}
}

// tick does the periodic work.
func (e *Engine) tick() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-ticker.C:
			e.do(func(g *core.Gateway) {
				g.Tick()
				g.Rest()
				for _, since := range e.calls {
					if now.Sub(since) > patience && g.Detach() {
						e.o.Log.Warn("the chain does not answer: this gateway takes all keys out of the directory")
						break
					}
				}
			})
		}
	}
}

// Reveal waits until a message of etcd with a revision may be shown. If the cache ends meanwhile, that is when no other gateway
// answers from the chain.
func (e *Engine) Reveal(ctx context.Context, m core.Message, rev int64) error {
	e.mu.Lock()
	shown, serving := e.core.Shows(m, rev), e.core.Serving()
	e.mu.Unlock()
	if shown {
		return nil
	}
	if !serving && e.ctx.Err() == nil {
		if shown, err := e.unpushed(ctx, m, rev); shown || err != nil {
			return err
		}
	}
	if e.ctx.Err() != nil {
		return e.revealAfter(ctx)
	}
	e.mu.Lock()
	e.last++
	id, done := e.last, make(chan struct{})
	e.reveals[id] = done
	e.mu.Unlock()
	e.do(func(g *core.Gateway) { g.Reveal(id, rev) })
	look := time.NewTimer(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-look.C: // the push may need a majority of etcd's members, which a serializable read does not
			if !e.look(ctx, m, rev) {
				look.Reset(lookAgain)
				continue
			}
			e.forgetReveal(id)
			return nil
		case <-ctx.Done():
			e.forgetReveal(id)
			return ctx.Err()
		case <-e.ctx.Done():
			return e.revealAfter(ctx)
		}
	}
}

// forgetReveal ends the wait for a push.
func (e *Engine) forgetReveal(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.reveals, id)
}

// revealAfter waits after the end of the cache until an answer may be shown.
func (e *Engine) revealAfter(ctx context.Context) error {
	if bypassed, err := e.Bypassed(ctx); bypassed {
		return err
	}
	return errClosed
}

// Saw takes the header of an answer of etcd.
func (e *Engine) Saw(h *pb.ResponseHeader) {
	if h != nil {
		e.header.Store(h)
		for {
			newest := e.newest.Load()
			if h.Revision <= newest || e.newest.CompareAndSwap(newest, h.Revision) {
				break
			}
		}
	}
}
