package memory

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// startChain runs a chain of three nodes on sockets.
func startChain(t *testing.T) *topology.Cluster {
	t.Helper()
	return softchain.Start(t, 3, 4, 20_000)
}

// gateway is a gateway of a test.
type gateway struct {
	*Server
	address string
	chain   *client.Client
	cluster *topology.Cluster
	// stop ends the gateway as SIGTERM does; kill as SIGKILL does, with its connections and its chain client first. Its
	// lock lapses at once, unless the test has chosen how long it lasts.
	stop func()
	kill func()
}

// start serves until the test ends.
func start(t *testing.T, cluster *topology.Cluster, o Options) *gateway {
	t.Helper()
	o.Chain = softchain.Connect(t, cluster)
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if o.LogEntries == 0 {
		o.LogEntries = 1024
	}
	lapses := o.LockTTL == 0
	if lapses {
		o.LockTTL = time.Minute // no takeover, however busy the machine
	}
	s, err := Listen(ServerOptions{Options: o, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the gateway ended: %v", err)
		}
	})
	t.Cleanup(stop)
	g := &gateway{Server: s, address: s.Addr().String(), chain: o.Chain, cluster: cluster, stop: stop}
	g.kill = func() {
		o.Chain.Close() // it can change nothing in the chain any more
		stop()
		if lapses {
			g.lapse(t)
		}
	}
	return g
}

// lapse ends the lock of a gateway that was killed, as its time to live does.
func (g *gateway) lapse(t *testing.T) {
	t.Helper()
	chain, key := softchain.Connect(t, g.cluster), "lock:"+g.lockName()
	defer chain.Close()
	switch r, err := chain.Get(t.Context(), key); {
	case errors.Is(err, client.ErrNotFound):
	case err != nil:
		t.Fatal(err)
	case bytes.Contains(r.Value, []byte(strconv.Quote(g.address))): // else another gateway holds it, or none
		must(chain.Delete(t.Context(), key))(t)
	}
}

// open makes a client of etcd.
func open(t *testing.T, addresses ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addresses, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// again repeats a call while no gateway is active, or after it failed with one.
func again[T any](do func() (T, error)) func(t *testing.T) T {
	for {
		v, err := do()
		var known rpctypes.EtcdError
		code := status.Code(err)
		if errors.As(err, &known) {
			code = known.Code()
		}
		if code != codes.Unavailable {
			return must(v, err)
		}
	}
}

// waitActive waits until the gateway is active.
func (g *gateway) waitActive(t *testing.T) (l *leader) {
	t.Helper()
	eventually(t, "the gateway is active", func() bool {
		l = g.where().lead
		return l != nil
	})
	return l
}

func TestKV(t *testing.T) {
	cluster := startChain(t)
	a := start(t, cluster, Options{})
	a.waitActive(t)
	b := start(t, cluster, Options{})
	for _, g := range []*gateway{a, b} {
		c := open(t, g.address)
		ctx := t.Context()
		before := must(c.Get(ctx, "k"))(t).Header.Revision
		p := must(c.Put(ctx, "k", "1"))(t)
		if p.Header.Revision != before+1 || p.Header.ClusterId == 0 || p.Header.MemberId == 0 {
			t.Errorf("after revision %d: %v", before, p.Header)
		}
		r := must(c.Get(ctx, "k"))(t)
		if len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "1" || r.Kvs[0].ModRevision != p.Header.Revision {
			t.Errorf("%v", r)
		}
		txn := must(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("k"), "=", p.Header.Revision)).
			Then(clientv3.OpPut("k", "2"), clientv3.OpPut("l", "2")).Else(clientv3.OpGet("k")).Commit())(t)
		if !txn.Succeeded || txn.Header.Revision != p.Header.Revision+1 {
			t.Errorf("%v", txn)
		}
		txn = must(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("k"), "=", p.Header.Revision)).
			Then(clientv3.OpPut("k", "3")).Else(clientv3.OpGet("k")).Commit())(t)
		if txn.Succeeded || string(txn.Responses[0].GetResponseRange().Kvs[0].Value) != "2" {
			t.Errorf("%v", txn)
		}
		old := must(c.Get(ctx, "k", clientv3.WithRev(p.Header.Revision)))(t)
		if string(old.Kvs[0].Value) != "1" {
			t.Errorf("%v", old)
		}
		d := must(c.Delete(ctx, "", clientv3.WithFromKey(), clientv3.WithPrevKV()))(t)
		if d.Deleted != 2 || len(d.PrevKvs) != 2 {
			t.Errorf("%v", d)
		}
		must(c.Compact(ctx, d.Header.Revision))(t)
		if _, err := c.Get(ctx, "k", clientv3.WithRev(p.Header.Revision)); err == nil {
			t.Error("a compacted revision was read")
		}
	}
}
