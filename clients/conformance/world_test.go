package conformance

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// shards of the scripted clusters.
const shards = 2

// request is a message that a scripted node received.
type request struct {
	node     int // its place in the chain
	from     netip.AddrPort
	datagram []byte // without trailer
	tagged   bool
	message  wire.Message
}

// script says what a node does with a request. It runs under the world's lock, one request at a time.
type script func(w *world, r *request)

// world is a cluster of nodes whose behaviour a script decides. Behind them is one node that obeys all rules, as a chain
// of one: it executes the requests that the script lets through.
type world struct {
	t     *testing.T
	conns []*net.UDPConn
	addrs []netip.AddrPort

	mu     sync.Mutex
	store  *chain.Node
	epoch  uint32
	script script
	got    []request
	keys   *wire.Keyring // not nil: answers carry tags
	kept   []packet
}

// packet is an answer that is kept back.
type packet struct {
	node     int
	to       netip.AddrPort
	datagram []byte
}

// newWorld starts scripted nodes until the test ends.
func newWorld(t *testing.T, nodes int, s script) *world {
	t.Helper()
	w := &world{t: t, script: s}
	for range nodes {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 66, 33, 1)})
		if err != nil {
			t.Fatal(err)
		}
		w.conns = append(w.conns, conn)
		w.addrs = append(w.addrs, conn.LocalAddr().(*net.UDPAddr).AddrPort())
		t.Cleanup(func() { conn.Close() })
	}
	w.store = chain.New(chain.Options{Shards: shards, CellBytes: wire.MaxValueBytes, MaxObjects: 1000, MaxSessions: 1000})
	w.configure(1)
	for i, conn := range w.conns {
		go w.serve(i, conn)
	}
	return w
}

// configure puts the store into an epoch.
func (w *world) configure(epoch uint32) {
	w.epoch = epoch
	for shard := range uint16(shards) {
		config := chain.ShardConfig{Epoch: epoch, State: chain.Active, Members: w.addrs[:1]}
		if err := w.store.Configure(shard, config); err != nil {
			w.t.Error(err)
		}
		if err := w.store.Grant(shard, math.MaxUint64); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) serve(node int, conn *net.UDPConn) {
	b := make([]byte, 2*wire.MaxDatagramBytes)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		w.receive(&request{node: node, from: from, datagram: slices.Clone(b[:n])})
	}
}

func (w *world) receive(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.tagged = wire.Tagged(r.datagram); r.tagged {
		ok := false
		if w.keys != nil {
			r.datagram, ok = w.keys.Open(r.datagram, wire.Ends{To: w.addrs[r.node]})
		}
		if !ok {
			w.t.Errorf("a request has a wrong tag")
			return
		}
	}
	if outcome := wire.Decode(r.datagram, &r.message); outcome != wire.Accepted {
		w.t.Errorf("a client sent %x: %v", r.datagram, outcome)
		return
	}
	w.got = append(w.got, *r)
	w.script(w, r)
}

// requests are those that came so far, in the order in which the client sent them: all clients count their ids up.
func (w *world) requests() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	sorted := slices.Clone(w.got)
	slices.SortStableFunc(sorted, func(a, b request) int {
		return int(int64(a.message.Request-b.message.Request) >> 1)
	})
	return sorted
}

// execute has the store handle a request, and returns its answer; nil: none.
func (w *world) execute(r *request) *wire.Message {
	for _, send := range w.store.Receive(1, r.from, r.datagram, nil) {
		if send.To == r.from && send.Message.Op == wire.OpReply {
			send.Message.Value = slices.Clone(send.Message.Value)
			return &send.Message
		}
	}
	return nil
}

// pass executes a request and answers it.
func (w *world) pass(r *request) {
	if m := w.execute(r); m != nil {
		w.answer(r, m)
	}
}

// answer sends a message from the node that was asked.
func (w *world) answer(r *request, m *wire.Message) { w.send(packet{r.node, r.from, m.Append(nil)}) }

// keep keeps an answer back, until release.
func (w *world) keep(r *request, m *wire.Message) {
	w.kept = append(w.kept, packet{r.node, r.from, m.Append(nil)})
}

// release sends the answers that were kept, the last one first.
func (w *world) release() {
	for _, p := range slices.Backward(w.kept) {
		w.send(p)
	}
	w.kept = nil
}

func (w *world) send(p packet) {
	datagram := p.datagram
	if w.keys != nil {
		var err error
		if datagram, err = w.keys.Append(slices.Clone(datagram), wire.Ends{From: w.addrs[p.node]}); err != nil {
			w.t.Error(err)
		}
	}
	_, _ = w.conns[p.node].WriteToUDPAddrPort(datagram, p.to) // a client that has gone misses it
}

// status answers a request with a status that the store did not give.
func (w *world) status(r *request, s wire.Status, flags wire.Flag, epoch uint32) {
	w.answer(r, replyTo(r, s, flags, epoch))
}

func replyTo(r *request, s wire.Status, flags wire.Flag, epoch uint32) *wire.Message {
	return &wire.Message{
		Op: wire.OpReply, Flags: flags, Hops: 1, Shard: r.message.Shard, Epoch: epoch, Detail: uint16(s),
		Request: r.message.Request, Key: r.message.Key,
	}
}

// clusterFile writes the file of a static cluster of the nodes.
func (w *world) clusterFile() string {
	c := &topology.Cluster{Epoch: 1, Shards: shards, Chains: [][]string{nil}}
	for i, addr := range w.addrs {
		name := nodeName(i)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: addr})
		c.Chains[0] = append(c.Chains[0], name)
	}
	return clitest.WriteCluster(w.t, c)
}

func nodeName(place int) string { return fmt.Sprintf("n%d", place+1) }

// keyIn finds a key of a shard.
func keyIn(shard uint16, prefix string) string {
	for i := 0; ; i++ {
		key := fmt.Sprint(prefix, i)
		if hashed, err := wire.HashKey([]byte(key)); err == nil && hashed.Shard(shards) == shard {
			return key
		}
	}
}

func hasError(o Outcome, wanted string) bool {
	return strings.Join(o.Errors, " ") == wanted
}
