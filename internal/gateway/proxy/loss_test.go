package proxy

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
	"github.com/netcraq/netcraq/wire"
)

// lossy stands between clients and the nodes of a chain, and loses and repeats what it passes on.
type lossy struct {
	mu     sync.Mutex
	random *rand.Rand
	loss   float64
	nodes  map[netip.AddrPort]int // nodes by their own addresses
	own    []netip.AddrPort
	fronts []*net.UDPConn
	backs  map[netip.AddrPort]*net.UDPConn // a socket for each client, as nodes see it
}

// between puts a lossy network in front of a chain, and returns the cluster as clients see it.
func between(t *testing.T, c *topology.Cluster, seed uint64, loss float64) (*topology.Cluster, *lossy) {
	t.Helper()
	w := &lossy{
		random: rand.New(rand.NewPCG(seed, 9)), loss: loss, nodes: make(map[netip.AddrPort]int), backs: make(map[netip.AddrPort]*net.UDPConn),
	}
	seen := *c
	seen.Nodes = nil
	for i, node := range c.Nodes {
		front := w.listen(t)
		w.nodes[node.Addr] = i
		w.own = append(w.own, node.Addr)
		w.fronts = append(w.fronts, front)
		node.Addr = front.LocalAddr().(*net.UDPAddr).AddrPort()
		seen.Nodes = append(seen.Nodes, node)
	}
	for i := range w.fronts {
		go w.serve(w.fronts[i], func(from netip.AddrPort) (*net.UDPConn, netip.AddrPort) { return w.back(t, from), w.own[i] })
	}
	return &seen, w
}

// set changes how much is lost.
func (w *lossy) set(loss float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loss = loss
}

func (w *lossy) listen(t *testing.T) *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 66, 17, 2)})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// back is the socket that stands for a client.
func (w *lossy) back(t *testing.T, client netip.AddrPort) *net.UDPConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.backs[client] == nil {
		conn := w.listen(t)
		w.backs[client] = conn
		go w.serve(conn, func(from netip.AddrPort) (*net.UDPConn, netip.AddrPort) { return w.fronts[w.nodes[from]], client })
	}
	return w.backs[client]
}

func (w *lossy) serve(conn *net.UDPConn, way func(from netip.AddrPort) (via *net.UDPConn, to netip.AddrPort)) {
	data := make([]byte, wire.MaxMessageBytes)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(data)
		if err != nil {
			return
		}
		via, to := way(from)
		w.mu.Lock()
		times := 1
		switch d := w.random.Float64(); {
		case d < w.loss:
			times = 0
		case d < 2*w.loss:
			times = 2
		}
		w.mu.Unlock()
		for range times {
			_, _ = via.WriteToUDPAddrPort(data[:n], to) // what a closed socket does not take is lost
		}
	}
}

// TestLinearizableUnderLoss has clients use few keys over two gateways whose chain loses messages, and whose places change.
func TestLinearizableUnderLoss(t *testing.T) {
	etcd, seed := startEtcd(t), seedtest.Seed(t)
	cluster, _ := between(t, startChain(t, 3, 4), seed, 0.03)
	o := Cache{Placement: placement.Defaults()}
	o.Placement.Residence, o.Placement.Capacity = 0.3, 8*o.Placement.Overhead
	a, b := startCached(t, etcd, cluster, o), startCached(t, etcd, cluster, o)
	w := gatewaycheck.Workload{Prefix: "hot/", Keys: 6, Clients: 8, Ops: 1500, Timeout: time.Minute, Settle: time.Minute, Seed: seed}
	record := w.Run(t.Context(), gatewaycheck.Of(a.client, b.client))
	check(t, record, open(t, etcd), w.Prefix)
	hits := a.cache.Stats().Hits + b.cache.Stats().Hits
	if hits < uint64(w.Clients*w.Ops/50) {
		t.Errorf("%d hits: the chain is hardly tried", hits)
	}
	t.Logf("%d hits", hits)
}

func check(t *testing.T, record *gatewaycheck.Record, etcd *clientv3.Client, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h, err := gatewaycheck.ReadHistory(ctx, etcd, prefix)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range record.Check(h) {
		if i == 20 {
			break
		}
		t.Error(v)
	}
	answered, unknown, events := record.Counts()
	t.Logf("%d answered, %d unknown, %d events", answered, unknown, events)
	if answered < 100 || events == 0 {
		t.Error("hardly anything was done")
	}
}

// TestChainAway has a gateway lose its chain: it takes its keys out of the directory and serves from etcd, and places keys again when
// the chain is back.
func TestChainAway(t *testing.T) {
	etcd, seed := startEtcd(t), seedtest.Seed(t)
	cluster, network := between(t, startChain(t, 3, 1), seed, 0)
	a := startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k", "1"))(t)
	a.hot(t, "k")
	network.set(1)
	must(a.client.Put(t.Context(), "k", "2"))(t)
	if r := must(a.client.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != "2" {
		t.Errorf("without the chain: %v", r)
	}
	network.set(0)
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "2" {
		t.Errorf("with the chain again: %v", r)
	}
}
