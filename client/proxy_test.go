package client

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/wire"
)

// network is a bad network between real nodes and real clients: a proxy in front of every node, through which all
// messages of clients and of the chain go, both ways. Nodes and clients know each other by the proxies' addresses only.
type network struct {
	planes  []*soft.Plane
	cluster *Cluster
	nodes   map[netip.AddrPort]int // by their real addresses
	fronts  []*net.UDPConn
	seed    uint64

	mu sync.Mutex
	faults
	random *rand.Rand
	backs  map[netip.AddrPort]*net.UDPConn // the sockets that nodes see as the clients
	closed bool
	kept   []packet      // of clients, if keep is set
	queues []chan packet // in front of slow nodes
}

// faults are the faults of the network.
type faults struct {
	loss, duplicate, delay float64       // probabilities
	longest                time.Duration // of a delay; also of a duplicate's
	down                   bool          // nothing passes
	keep                   bool          // remember the messages of clients
	unbundled              bool          // bundles of clients do not pass
	// forge, if set, is called with each message of a client and may answer it before the node does.
	forge func(message []byte, client netip.AddrPort)
}

type packet struct {
	via  *net.UDPConn
	to   netip.AddrPort
	data []byte
}

// newNetwork starts a chain of n nodes behind a network without faults.
func newNetwork(t *testing.T, n int, o chain.Options) *network {
	t.Helper()
	seed := seedtest.Seed(t)
	w := &network{
		planes: startNodes(t, n, o),
		seed:   seed,
		nodes:  make(map[netip.AddrPort]int),
		random: rand.New(rand.NewPCG(seed, 0)),
		backs:  make(map[netip.AddrPort]*net.UDPConn),
	}
	var addrs []netip.AddrPort
	for i, p := range w.planes {
		front := w.listen(t)
		w.nodes[p.Addr()] = i
		w.fronts = append(w.fronts, front)
		addrs = append(addrs, front.LocalAddr().(*net.UDPAddr).AddrPort())
	}
	w.cluster = clusterOf(o.Shards, addrs...)
	configure(t, w.planes, w.cluster)
	for i, front := range w.fronts {
		go w.relay(t, front, i)
	}
	t.Cleanup(w.close)
	return w
}

func (w *network) listen(t *testing.T) *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 66, 0, 3)})
	if err != nil {
		t.Error(err)
		return nil
	}
	return conn
}

func (w *network) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, conn := range w.fronts {
		conn.Close()
	}
	for _, conn := range w.backs {
		conn.Close()
	}
}

func (w *network) set(f faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

// relay forwards the messages that arrive at a node's front. Those of a node leave by that node's front, those of a client
// by the client's back.
func (w *network) relay(t *testing.T, conn *net.UDPConn, node int) {
	for {
		data, from, ok := receive(conn)
		if !ok {
			return
		}
		to := w.planes[node].Addr()
		if sender, isNode := w.nodes[from]; isNode {
			w.pass(packet{w.fronts[sender], to, data})
			continue
		}
		if back := w.back(t, from); back != nil {
			w.fromClient(packet{back, to, data}, from)
		}
	}
}

func (w *network) fromClient(d packet, client netip.AddrPort) {
	w.mu.Lock()
	if w.keep {
		w.kept = append(w.kept, d)
	}
	forge, unbundled := w.forge, w.unbundled
	w.mu.Unlock()
	if forge != nil {
		forge(d.data, client)
	}
	if unbundled && wire.IsBundle(d.data) {
		return
	}
	w.pass(d)
}

// back returns the socket that stands for a client before the nodes.
func (w *network) back(t *testing.T, client netip.AddrPort) *net.UDPConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if w.backs[client] == nil {
		conn := w.listen(t)
		w.backs[client] = conn
		go func() {
			for {
				data, from, ok := receive(conn)
				if !ok {
					return
				}
				w.pass(packet{w.fronts[w.nodes[from]], client, data})
			}
		}()
	}
	return w.backs[client]
}

func receive(conn *net.UDPConn) ([]byte, netip.AddrPort, bool) {
	data := make([]byte, wire.MaxMessageBytes)
	n, from, err := conn.ReadFromUDPAddrPort(data)
	return data[:n], from, err == nil
}

// pass applies the faults to one message.
func (w *network) pass(d packet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.random.Float64() < w.loss {
		return
	}
	if w.random.Float64() < w.duplicate {
		w.sendLater(d)
	}
	if w.random.Float64() < w.delay {
		w.sendLater(d)
		return
	}
	if node, ok := w.nodes[d.to]; ok && w.queues != nil {
		select {
		case w.queues[node] <- d:
		default: // lost
		}
		return
	}
	_, _ = d.via.WriteToUDPAddrPort(d.data, d.to) // a closed socket loses the message
}

func (w *network) sendLater(d packet) {
	time.AfterFunc(time.Duration(w.random.Int64N(int64(w.longest)+1)), func() {
		_, _ = d.via.WriteToUDPAddrPort(d.data, d.to)
	})
}

// replay sends every message of clients that was kept once more.
func (w *network) replay() {
	w.mu.Lock()
	kept := w.kept
	w.mu.Unlock()
	for _, d := range kept {
		_, _ = d.via.WriteToUDPAddrPort(d.data, d.to)
	}
}

// resync does the work of the agents: without it an object whose ACK was lost would stay dirty (W9).
func resync(t *testing.T, planes []*soft.Plane) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(2 * time.Millisecond)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
			for _, p := range planes {
				resyncOnce(t, p)
			}
		}
	}()
	t.Cleanup(func() {
		ticker.Stop()
		close(stop)
		<-stopped
	})
}

func resyncOnce(t *testing.T, p *soft.Plane) {
	dirty, err := p.Dirty(100)
	if err != nil {
		t.Error(err)
	}
	for _, d := range dirty {
		config, err := p.Config(0)
		if err != nil {
			t.Error(err)
		}
		var writer chain.Session
		var session uint64
		err = p.Sessions(func(k chain.SessionKey, s chain.Session) bool {
			if s.WriterOf(d.Key, d.Object.Version) {
				writer, session = s, k.Session
			}
			return session == 0
		})
		if err != nil {
			t.Error(err)
		}
		if send, ok := chain.Resync(config, 0, d.Key, d.Object, writer, session, 1); ok {
			if err := p.Send(send); err != nil {
				t.Log(err)
			}
		}
	}
}
