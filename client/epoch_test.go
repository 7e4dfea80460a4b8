package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/wire"
)

// nextEpoch gives the nodes a newer epoch and returns its map.
func nextEpoch(t *testing.T, nodes *testCluster) *Cluster {
	t.Helper()
	newer := *nodes.cluster
	newer.Epoch++
	configure(t, nodes.planes, &newer)
	return &newer
}

func TestStaticMapIsOld(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	nextEpoch(t, nodes)
	_, err := c.Put(ctx, "k", nil)
	notMine := new(NotMineError)
	if !errors.Is(err, ErrNotMine) || !errors.As(err, &notMine) || notMine.ClientEpoch != 1 || notMine.NodeEpoch != 2 {
		t.Fatalf("put: %v", err)
	}
}

// A write waits for a head that is just starting: it answers, but has no configuration yet, or that of an older epoch.
func TestWriteWaitsForStart(t *testing.T) {
	for name, config := range map[string]func(older *Cluster) chain.ShardConfig{
		"no configuration": func(*Cluster) chain.ShardConfig { return chain.ShardConfig{} },
		"an older epoch":   func(older *Cluster) chain.ShardConfig { return older.ShardConfig("n1", 0) },
	} {
		nodes := startCluster(t, 2, 1)
		older := nodes.cluster
		newer := nextEpoch(t, nodes)
		configureHead := func(c chain.ShardConfig) {
			if err := nodes.planes[0].Configure(0, c); err != nil {
				t.Error(err)
			}
		}
		for where, put := range map[string]func(*Client) (Result, error){
			"alone":      func(c *Client) (Result, error) { return c.Put(soon(t), "k", nil) },
			"in a batch": func(c *Client) (Result, error) { o := c.Do(soon(t), []Op{PutOp("k", nil)})[0]; return o.Result, o.Err },
		} {
			configureHead(config(older))
			c := newClient(t, Options{Cluster: newer, Timeout: 30 * time.Millisecond})
			_, err := c.Put(context.Background(), "k", nil)
			if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, ErrTimeout) || !errors.Is(err, ErrNotMine) {
				t.Errorf("%s, %s: put at a head that never starts: %v", name, where, err)
			}
			looks := 0
			c.bootTime = func() time.Duration { // the client looks when the write begins, and before it is sent again
				if looks++; looks == 3 {
					configureHead(newer.ShardConfig("n1", 0))
				}
				return 0
			}
			if r, err := put(c); err != nil || r.Attempts < 3 {
				t.Errorf("%s, %s: %+v, %v", name, where, r, err)
			}
		}
	}
}

// A node that lost its configuration does not keep a read from the others.
func TestOneNodeServesNothing(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster, ReadFrom: Spread}), soon(t)
	if _, err := c.Put(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := nodes.planes[1].Configure(0, chain.ShardConfig{}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if r, err := c.Get(ctx, "k"); err != nil || r.Node == nodes.cluster.Nodes[1].Name {
			t.Fatalf("get: %+v, %v", r, err)
		}
	}
	if _, err := c.Get(ctx, "k", From(Named(nodes.cluster.Nodes[1].Name))); !errors.Is(err, ErrNotMine) {
		t.Fatalf("get from the node: %v", err)
	}
}

func TestRefresh(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	settle(t, nodes.planes) // an ACK that meets the next epoch is lost
	newer := nodes.cluster
	asked := 0
	c := newClient(t, Options{Cluster: nodes.cluster, Refresh: func(_ context.Context, old *Cluster) (*Cluster, error) {
		asked++
		switch asked {
		case 1:
			return nil, errors.New("not reachable")
		case 2:
			return old, nil
		}
		return newer, nil
	}})
	newer = nextEpoch(t, nodes)
	ctx := soon(t)
	r, err := c.Add(ctx, "counter", 1)
	if n, _ := r.Counter(); err != nil || n != 1 || r.Epoch != 2 || asked != 3 {
		t.Fatalf("add: %+v, %v, %d refreshments", r, err, asked)
	}
	newer = nextEpoch(t, &testCluster{nodes.planes, newer})
	for i, o := range c.Do(ctx, []Op{AddOp("counter", 1), AddOp("counter", 1)}) {
		if o.Err != nil || o.Epoch != 3 {
			t.Fatalf("add %d: %+v", i, o)
		}
	}
	if asked != 4 {
		t.Fatalf("%d refreshments", asked)
	}
}

// A refusal is lost with the head that gave it: it does not count once an attempt went to a later epoch. An OK does.
func TestRefusalOfAnOldEpoch(t *testing.T) {
	cluster := clusterOf(1, netip.MustParseAddrPort("127.66.0.4:1"), netip.MustParseAddrPort("127.66.0.4:2"))
	c := newClient(t, Options{Cluster: cluster})
	op := CASOp("k", 1, nil)
	var k call
	if err := k.begin(t.Context(), c, &op); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	send := func(id uint64) {
		if _, _, ok := k.next(now, id, nil); !ok {
			t.Fatal(k.err)
		}
	}
	send(1)
	newer := *cluster
	newer.Epoch++
	v, err := newView(&newer, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.view.Store(v)
	send(2)
	reply := wire.Message{Op: wire.OpReply, Request: 1, Key: k.key, Detail: uint16(wire.StatusCASFailed), Version: 5}
	if got := k.judge(now, cluster.Nodes[0].Addr, &reply); got != ignore {
		t.Errorf("a refusal of epoch 1 after an attempt in epoch 2: verdict %d", got)
	}
	ok := reply
	ok.Detail = uint16(wire.StatusOk)
	first := k
	if got := first.judge(now, cluster.Nodes[1].Addr, &ok); got != done || first.err != nil || first.result.Version != 5 {
		t.Errorf("an OK of epoch 1: verdict %d, %v", got, first.err)
	}
	reply.Request = 2
	if got := k.judge(now, cluster.Nodes[0].Addr, &reply); got != done || !errors.Is(k.err, ErrCASFailed) {
		t.Errorf("a refusal of epoch 2: verdict %d, %v", got, k.err)
	}
}
