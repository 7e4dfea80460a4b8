package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// history checks answers against the newest revision that any client had seen when the call began.
type history struct {
	shown  atomic.Int64
	ended  atomic.Int64 // calls
	failed atomic.Int64
	mu     sync.Mutex
	values map[int64]string // of the key, by the revision of the put
	stale  []string
}

func (h *history) saw(revision int64) {
	for {
		before := h.shown.Load()
		if revision <= before || h.shown.CompareAndSwap(before, revision) {
			return
		}
	}
}

// call makes one call at a client. Its kind is drawn.
func (h *history) call(ctx context.Context, c *clientv3.Client, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	defer h.ended.Add(1)
	least := h.shown.Load()
	if r.IntN(3) == 0 {
		value := fmt.Sprint(r.Uint64())
		put, err := c.Put(ctx, "k", value)
		if err != nil {
			h.failed.Add(1)
			return
		}
		h.mu.Lock()
		h.values[put.Header.Revision] = value
		h.mu.Unlock()
		h.check("put", least, put.Header.Revision)
		return
	}
	get, err := c.Get(ctx, "k")
	if err != nil {
		h.failed.Add(1)
		return
	}
	h.check("get", least, get.Header.Revision)
	if len(get.Kvs) == 0 {
		return
	}
	kv := get.Kvs[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := int64(0)
	for revision := range h.values {
		if revision <= get.Header.Revision {
			newest = max(newest, revision)
		}
	}
	if value, known := h.values[kv.ModRevision]; kv.ModRevision < newest || known && value != string(kv.Value) {
		h.stale = append(h.stale, fmt.Sprintf("get at %d: %q of %d, and %d was put", get.Header.Revision, kv.Value, kv.ModRevision, newest))
	}
	for revision := range h.values {
		if revision < h.shown.Load()-1000 {
			delete(h.values, revision)
		}
	}
}

func (h *history) check(what string, least, revision int64) {
	h.saw(revision)
	if revision < least {
		h.mu.Lock()
		h.stale = append(h.stale, fmt.Sprintf("%s at %d after somebody saw %d", what, revision, least))
		h.mu.Unlock()
	}
}

// await returns when so many more calls have ended, or ctx has.
func (h *history) await(ctx context.Context, calls int64) {
	until := h.ended.Load() + calls
	for pauses := retry.Between(time.Millisecond, 20*time.Millisecond); h.ended.Load() < until; {
		if !pauses.Wait(ctx) {
			return
		}
	}
}

// TestFaults: clients call all members while chain and members fail, in an order that a seed gives.
func TestFaults(t *testing.T) {
	c := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &history{values: make(map[int64]string)}
	const calls, clients = 1500, 4
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for n := range clients {
		// Clients of their own: those of the cluster end with their members.
		var all []*clientv3.Client
		for _, m := range c.Members {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL()}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			all = append(all, client)
		}
		callers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for h.ended.Load() < calls && t.Context().Err() == nil {
				h.call(t.Context(), all[r.IntN(len(all))], r)
			}
		})
	}
	go func() {
		callers.Wait()
		cancel()
	}()
	r := rand.New(rand.NewPCG(seed, clients))
	kinds := make(map[string]int)
	for ctx.Err() == nil {
		h.await(ctx, int64(50+r.IntN(200)))
		c.fault(ctx, r, h, kinds)
	}
	callers.Wait()
	for _, text := range h.stale {
		t.Error(text)
	}
	t.Logf("%d calls, %d failed, %d fast reads, faults %v", h.ended.Load(), h.failed.Load(), c.fast(), kinds)
	if n := h.ended.Load(); h.failed.Load() > n/2 || c.fast() < uint64(n/20) {
		t.Errorf("%d calls, %d failed, %d fast reads", n, h.failed.Load(), c.fast())
	}
}

// fault makes one fault, and mends it after some calls.
func (c *cluster) fault(ctx context.Context, r *rand.Rand, h *history, kinds map[string]int) {
	i := r.IntN(3)
	wait := func() { h.await(ctx, int64(r.IntN(150))) }
	switch r.IntN(5) {
	case 0:
		kinds["chain away"]++
		c.chain.set(true)
		wait()
		c.chain.set(false)
	case 1:
		kinds["cut from the chain"]++
		c.chains[i].set(true)
		wait()
		c.chains[i].set(false)
	case 2:
		kinds["cut from the others"]++
		self, others := c.Members[i].Server, []types.ID(nil)
		for j, m := range c.Members {
			if j != i {
				others = append(others, m.Server.MemberID())
				self.CutPeer(m.Server.MemberID())
				m.Server.CutPeer(self.MemberID())
			}
		}
		wait()
		for _, id := range others {
			self.MendPeer(id)
		}
		for j, m := range c.Members {
			if j != i {
				m.Server.MendPeer(self.MemberID())
			}
		}
	case 3:
		kinds["restart"]++
		c.engines[i].Close()
		c.Members[i].Stop()
		wait()
		c.Members[i].Begin()
		c.Members[i].Await()
		c.engine(i)
	case 4:
		kinds["off and on"]++
		off, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_ = c.engines[i].SetOff(off, true) // etcd may have no leader
		_ = c.engines[i].SetOff(off, false)
	}
}
