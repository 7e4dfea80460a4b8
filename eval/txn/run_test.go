package txn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// testSystem makes sessions by a function.
type testSystem func(client int) (Session, error)

func (f testSystem) Session(_ context.Context, client int) (Session, error) { return f(client) }
func (testSystem) Settings() []string                                       { return []string{"a test"} }
func (testSystem) Close() error                                             { return nil }

// startChain starts three nodes on sockets.
func startChain(t *testing.T) *client.Cluster {
	t.Helper()
	cluster := &client.Cluster{Epoch: 1, Shards: 1, Chains: [][]string{nil}}
	var planes []dataplane.Plane
	var addrs []netip.AddrPort
	for i := range chainNodes {
		options := chain.Options{Shards: 1, CellBytes: recordBytes, MaxObjects: 1 << 16, MaxSessions: 1 << 12}
		p, err := soft.Listen(netip.MustParseAddrPort("127.0.0.1:0"), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		name := fmt.Sprintf("n%d", i)
		cluster.Nodes = append(cluster.Nodes, client.Node{Name: name, Addr: p.Addr()})
		cluster.Chains[0] = append(cluster.Chains[0], name)
		planes, addrs = append(planes, p), append(addrs, p.Addr())
	}
	for i := len(planes) - 1; i >= 0; i-- {
		config := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: i, Members: addrs}
		err := planes[i].ConfigureAll(map[uint16]chain.ShardConfig{0: config})
		if err := errors.Join(err, planes[i].Grant(0, dataplane.Forever)); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// runUntilCommit runs for a duration, and longer if no transaction commits: test machines may be
// busy. The locks must be sound.
func runUntilCommit(t *testing.T, system System, o Options) {
	t.Helper()
	for ; ; o.Duration *= 4 {
		r, err := Run(t.Context(), system, o)
		if err == nil {
			err = r.Check()
		}
		if err != nil || o.Duration > time.Minute {
			t.Fatalf("seed %d: %v; %+v", o.Seed, err, r)
		}
		if r.Commits > 0 {
			return
		}
	}
}

// TestLocksOfAChain expects a correct ledger from all lock kinds under any contention.
func TestLocksOfAChain(t *testing.T) {
	cluster := startChain(t)
	for name, session := range map[string]func(*client.Client, int) Session{
		"direct": Direct,
		"recipe": func(c *client.Client, _ int) Session { return Recipe(c) },
	} {
		for _, o := range []Options{
			{Contention: 1, Clients: 4}, {Contention: 0.1, Clients: 4}, {Contention: 1, Clients: 3, AtOnce: 4},
			{Contention: 0.5, Clients: 4, Items: 12, AtOnce: 3},
		} {
			o.Duration, o.Seed = 300*time.Millisecond, 7
			t.Run(fmt.Sprintf("%s, %d of %v", name, o.Clients, o.Contention), func(t *testing.T) {
				runUntilCommit(t, testSystem(func(number int) (Session, error) {
					c, err := client.New(client.Options{Cluster: cluster, Timeout: patience})
					if err != nil {
						return nil, err
					}
					return session(c, number), nil
				}), o)
			})
		}
	}
}

// leaky is a broken lock service: it grants a lock to everyone, or always returns the same token.
type leaky struct {
	mu    *sync.Mutex
	held  map[Item]bool
	leaks bool
}

func (l *leaky) Take(_ context.Context, items []Item, locks []Lock) error {
	defer runtime.Gosched() // other clients run while this one holds its first lock, on one CPU too
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, item := range items {
		locks[i] = Lock{Taken: l.leaks || !l.held[item], Token: 1}
		l.held[item] = true
	}
	return nil
}

func (l *leaky) Give(_ context.Context, items []Item, _ []Lock) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, item := range items {
		delete(l.held, item)
	}
	return nil
}

func (*leaky) Close() error { return nil }

// TestTheLedgerTells expects the ledger to detect broken lock services.
func TestTheLedgerTells(t *testing.T) {
	for _, leaks := range []bool{true, false} {
		held, mu := make(map[Item]bool), new(sync.Mutex)
		system := testSystem(func(int) (Session, error) { return &leaky{mu, held, leaks}, nil })
		r, err := Run(t.Context(), system, Options{Contention: 1, Clients: 8, Items: 10,
			Duration: 200 * time.Millisecond, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		if r.Check() == nil || r.StaleTokens == 0 {
			t.Errorf("leaks %v: nothing found: %+v", leaks, r)
		}
		if broken := r.Violations > 0 && r.LostUpdates > 0; broken != leaks {
			t.Errorf("leaks %v: %+v", leaks, r)
		}
	}
}

// TestErrorsEndARun expects a failed client to end the run with its error.
func TestErrorsEndARun(t *testing.T) {
	sick := errors.New("out of order")
	_, err := Run(t.Context(), testSystem(func(client int) (Session, error) {
		if client == 1 {
			return nil, sick
		}
		return &leaky{new(sync.Mutex), make(map[Item]bool), false}, nil
	}), Options{Contention: 1, Clients: 2, Duration: time.Hour})
	if !errors.Is(err, sick) {
		t.Errorf("%v", err)
	}
	for _, o := range []Options{
		{Clients: 1, Duration: 1}, {Contention: 2, Clients: 1, Duration: 1}, {Contention: 1e-7, Clients: 1, Duration: 1},
		{Contention: 1, Duration: 1}, {Contention: 1, Clients: 1}, {Contention: 1, Clients: 1, Duration: 1, Items: 5},
	} {
		if _, err := Run(t.Context(), nil, o); !errors.As(err, new(*OptionError)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
