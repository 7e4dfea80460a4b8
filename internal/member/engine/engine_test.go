package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// cut is a chain that a test takes away.
type cut struct {
	objects.Chain
	mu   sync.Mutex
	away chan struct{} // closed when the chain is back; nil: it is there
}

func (c *cut) wait(ctx context.Context) {
	c.mu.Lock()
	away := c.away
	c.mu.Unlock()
	if away != nil {
		select {
		case <-away:
		case <-ctx.Done():
		}
	}
}

func (c *cut) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case away && c.away == nil:
		c.away = make(chan struct{})
	case !away && c.away != nil:
		close(c.away)
		c.away = nil
	}
}

func (c *cut) GetMany(ctx context.Context, keys []string, options ...client.ReadOption) []client.Outcome {
	c.wait(ctx)
	return c.Chain.GetMany(ctx, keys, options...)
}

func (c *cut) Do(ctx context.Context, ops []client.Op) []client.Outcome {
	c.wait(ctx)
	return c.Chain.Do(ctx, ops)
}

// cluster is three servers that read through a chain of three nodes.
type cluster struct {
	*etcdtest.Cluster
	t       *testing.T
	chain   *cut
	chains  []*cut // the chain as each member reaches it
	fronts  []*member.Front
	engines []*Engine
	without core.Rule
}

// start starts a cluster, without a rule if one is given.
func start(t *testing.T, without ...core.Rule) *cluster {
	t.Helper()
	c := &cluster{t: t, fronts: make([]*member.Front, 3), engines: make([]*Engine, 3)}
	for _, rule := range without {
		c.without |= rule
	}
	c.chain = &cut{Chain: softchain.Connect(t, softchain.Start(t, 3, 1, 64))}
	c.Cluster = etcdtest.Start(t, 3, func(i int, m *etcdtest.Member) {
		m.Config = func(e *embed.Config) {
			c.fronts[i] = member.NewFront()
			c.fronts[i].Configure(e)
		}
	})
	for i := range c.Members {
		c.chains = append(c.chains, &cut{Chain: c.chain})
		c.engine(i)
	}
	t.Cleanup(func() {
		for _, e := range c.engines {
			e.Close()
		}
	})
	c.await(core.On)
	return c
}

// engine starts the engine of a member that runs.
func (c *cluster) engine(i int) {
	c.engines[i] = Start(Options{Server: c.Members[i].Server, Chain: c.chains[i], Without: c.without, Log: slog.New(slog.DiscardHandler)})
	c.fronts[i].Start(c.Members[i].Server, c.engines[i])
}

// await returns when all members that run see a phase, and reads are fast if it is On.
func (c *cluster) await(phase core.Phase) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); ; {
		all := true
		for i, e := range c.engines {
			if c.Members[i].Etcd != nil {
				s := e.Status()
				all = all && s.State.Phase == phase && (phase != core.On || s.Reading)
			}
		}
		if all {
			return
		}
		if !pauses.Wait(ctx) {
			for _, e := range c.engines {
				c.t.Logf("%+v", e.Status())
			}
			c.t.Fatalf("not all members see %v within a minute", phase)
		}
	}
}

func (c *cluster) fast() (n uint64) {
	for _, f := range c.fronts {
		n += f.Fast()
	}
	return n
}

// TestReadsSeePuts: a read right after a put at another member sees it, and nearly all reads are fast.
func TestReadsSeePuts(t *testing.T) {
	c := start(t)
	before := c.fast()
	var clients sync.WaitGroup
	const rounds, parallel = 1000, 4
	for n := range parallel {
		clients.Go(func() {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			key := fmt.Sprint("k", n)
			for round := range rounds {
				value := fmt.Sprint(round)
				put, err := c.Members[r.IntN(3)].Client.Put(t.Context(), key, value)
				if err != nil {
					t.Error(err)
					return
				}
				get, err := c.Members[r.IntN(3)].Client.Get(t.Context(), key)
				if err != nil || len(get.Kvs) != 1 || string(get.Kvs[0].Value) != value || get.Header.Revision < put.Header.Revision {
					t.Errorf("round %d: %v, %v after a put at %d", round, get, err, put.Header.Revision)
					return
				}
			}
		})
	}
	clients.Wait()
	if n := c.fast() - before; n < rounds*parallel/2 {
		t.Errorf("%d of %d reads were fast", n, rounds*parallel)
	}
}

// TestRestart: while a member is killed and comes back, no answer is stale; afterwards reads are fast again.
func TestRestart(t *testing.T) {
	c := start(t)
	for round := range 3 {
		i := round % 3
		c.engines[i].Close()
		c.Members[i].Stop()
		writer, reader := c.Members[(i+1)%3], c.Members[(i+2)%3]
		for n := range 20 {
			value := fmt.Sprint(round, n)
			for { // etcd may have lost its leader
				if _, err := writer.Client.Put(t.Context(), "k", value); err == nil {
					break
				} else if t.Context().Err() != nil {
					t.Fatal(err)
				}
			}
			if get, err := reader.Client.Get(t.Context(), "k"); err != nil || string(get.Kvs[0].Value) != value {
				t.Fatalf("%v, %v", get, err)
			}
		}
		c.Members[i].Begin()
		c.Members[i].Await()
		c.engine(i)
		c.await(core.On)
		before := c.fronts[i].Fast()
		get, err := c.Members[i].Client.Get(t.Context(), "k")
		if err != nil || string(get.Kvs[0].Value) != fmt.Sprint(round, 19) || c.fronts[i].Fast() != before+1 {
			t.Errorf("%v, %v, %d fast", get, err, c.fronts[i].Fast()-before)
		}
	}
}

// TestChainAway: writes go on without a chain after one pause, reads are answered by etcd, and the chain is used again when it is back.
func TestChainAway(t *testing.T) {
	c := start(t)
	c.chain.set(true)
	for n := range 50 {
		if _, err := c.Members[n%3].Client.Put(t.Context(), "k", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		get, err := c.Members[(n+1)%3].Client.Get(t.Context(), "k")
		if err != nil || string(get.Kvs[0].Value) != fmt.Sprint(n) {
			t.Fatalf("%v, %v", get, err)
		}
	}
	for _, e := range c.engines {
		if s := e.Status(); !s.Free || s.State.Phase == core.On {
			t.Errorf("%+v", s)
		}
	}
	c.chain.set(false)
	c.await(core.On)
}

// TestOff: an operator ends fast reads at all members, and lets them begin again.
func TestOff(t *testing.T) {
	c := start(t)
	if err := c.engines[1].SetOff(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	before := c.fast()
	if _, err := c.Members[0].Client.Get(t.Context(), "k"); err != nil || c.fast() != before {
		t.Errorf("%v, %d fast reads", err, c.fast()-before)
	}
	c.await(core.Off)
	if err := c.engines[1].SetOff(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := c.engines[1].SetOff(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	c.await(core.On)
}

// TestMemberChanges: members are added and removed while reads are fast.
func TestMemberChanges(t *testing.T) {
	c := start(t)
	next := c.Next()
	added, err := c.Members[0].Client.MemberAdd(t.Context(), []string{next.PeerURL()})
	if err != nil {
		t.Fatal(err)
	}
	c.await(core.Off)
	if _, err := c.Members[1].Client.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Members[2].Client.MemberRemove(t.Context(), added.Member.ID); err != nil {
		t.Fatal(err)
	}
	c.await(core.On)
}

// TestLearner: a learner takes part, since it serves clients too, and reads fast once it is promoted.
func TestLearner(t *testing.T) {
	c := start(t)
	next := c.Next()
	added, err := c.Members[0].Client.MemberAddAsLearner(t.Context(), []string{next.PeerURL()})
	if err != nil {
		t.Fatal(err)
	}
	c.fronts, c.engines = append(c.fronts, member.NewFront()), append(c.engines, nil)
	c.chains = append(c.chains, &cut{Chain: c.chain})
	next.Config = c.fronts[3].Configure
	next.Begin()
	next.Await()
	c.engine(3)
	c.await(core.On)
	put, err := c.Members[1].Client.Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	get, err := next.Client.Get(t.Context(), "k", clientv3.WithSerializable())
	if err != nil || get.Header.Revision > put.Header.Revision {
		t.Errorf("%v, %v", get, err)
	}
	for { // etcd refuses it until the learner has caught up
		if _, err = c.Members[2].Client.MemberPromote(t.Context(), added.Member.ID); err == nil {
			break
		} else if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	c.await(core.On)
	before := c.fronts[3].Fast()
	if get, err = next.Client.Get(t.Context(), "k"); err != nil || string(get.Kvs[0].Value) != "v" || c.fronts[3].Fast() != before+1 {
		t.Errorf("%v, %v", get, err)
	}
}

// TestPlainMember: a member without this program keeps fast reads off, and clients' lists of members show no records.
func TestPlainMember(t *testing.T) {
	c := start(t)
	c.engines[2].Close()
	c.Members[2].Stop()
	config := c.Members[2].Config
	c.Members[2].Config = nil
	c.Members[2].Begin()
	c.Members[2].Await()
	running := c.engines
	c.engines = running[:2]
	c.await(core.Off)
	for n := range 20 {
		if _, err := c.Members[n%3].Client.Put(t.Context(), "k", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		if get, err := c.Members[(n+1)%3].Client.Get(t.Context(), "k"); err != nil || string(get.Kvs[0].Value) != fmt.Sprint(n) {
			t.Fatalf("%v, %v", get, err)
		}
	}
	// A client that follows the list of the plain member reaches the others.
	follower, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Members[2].ClientURL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	if err := follower.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if _, err := follower.Get(t.Context(), "k"); err != nil {
			t.Errorf("%q: %v", follower.Endpoints(), err)
		}
	}
	c.Members[2].Stop()
	c.Members[2].Config = config
	c.Members[2].Begin()
	c.Members[2].Await()
	c.engines = running
	c.engine(2)
	c.await(core.On)
}
