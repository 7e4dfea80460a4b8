package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
)

// TestFaults: clients call all members while chain and members fail, in an order that a seed gives.
func TestFaults(t *testing.T) {
	c := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	calls := &progress{moved: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	kinds := make(map[string]int)
	var faults sync.WaitGroup
	faults.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1<<32))
		for ctx.Err() == nil {
			calls.await(ctx, int64(50+r.IntN(200)))
			c.fault(ctx, r, calls, kinds)
		}
	})
	violations := c.try(250, seed, calls.add, func() {
		cancel()
		faults.Wait()
	})
	for _, text := range violations {
		t.Error(text)
	}
	n, failed := calls.ended.Load(), calls.failed.Load()
	t.Logf("%d calls, %d failed, %d fast reads, faults %v", n, failed, c.fast(), kinds)
	if failed > n/2 || c.fast() < 10 { // all read fast until the first fault
		t.Errorf("%d calls, %d failed, %d fast reads", n, failed, c.fast())
	}
}

// TestViolations: without rules that all answers need, the check of TestFaults finds violations even if nothing fails.
func TestViolations(t *testing.T) {
	for _, rule := range []core.Rule{core.Push, core.Reveal} {
		c := start(t, rule)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		if violations := c.try(400, seed, func(*gatewaycheck.Op) {}, func() {}); len(violations) == 0 {
			t.Errorf("nothing is wrong without rule %d, after %d fast reads", rule, c.fast())
		}
	}
}

// try has clients call all members, and returns what contradicts etcd's history.
func (c *cluster) try(each int, seed uint64, told func(*gatewaycheck.Op), ended func()) (violations []string) {
	c.t.Helper()
	// Clients of their own: those of the cluster end with their members.
	var all []string
	for _, m := range c.Members {
		all = append(all, m.ClientURL())
	}
	servers, err := gatewaycheck.Connect(all)
	if err != nil {
		c.t.Fatal(err)
	}
	defer servers.Close()
	w := gatewaycheck.Workload{
		Prefix: "k/", Keys: 3, Clients: 4, Ops: each, Timeout: time.Second, Settle: time.Minute, Seed: seed, Ways: true,
		Told: told, Ended: ended,
	}
	record := w.Run(c.t.Context(), servers)
	h, err := gatewaycheck.ReadHistoryFrom(c.t.Context(), all, w.Prefix)
	if err != nil {
		c.t.Fatal(err)
	}
	return record.Check(h)
}

// progress counts calls.
type progress struct {
	ended, failed atomic.Int64
	moved         chan struct{}
}

func (p *progress) add(o *gatewaycheck.Op) {
	if o.Err != nil {
		p.failed.Add(1)
	}
	p.ended.Add(1)
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// await returns when so many more calls have ended, or ctx has. One goroutine waits at a time.
func (p *progress) await(ctx context.Context, calls int64) {
	for until := p.ended.Load() + calls; p.ended.Load() < until; {
		select {
		case <-p.moved:
		case <-ctx.Done():
			return
		}
	}
}

// fault makes one fault, and mends it after some calls.
func (c *cluster) fault(ctx context.Context, r *rand.Rand, calls *progress, kinds map[string]int) {
	i := r.IntN(3)
	wait := func() { calls.await(ctx, int64(r.IntN(150))) }
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
