package memory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// putAndRead is a transaction whose response has a value.
func putAndRead(key string, value []byte) *pb.TxnRequest {
	put := &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value}}
	read := &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key)}}
	return &pb.TxnRequest{Success: []*pb.RequestOp{{Request: put}, {Request: read}}}
}

// A gateway that relays writes and does not take the replies must not fill the memory of the active one.
func TestRepliesOfRelayAreBounded(t *testing.T) {
	a := start(t, startChain(t), Options{LogEntries: 4096})
	a.waitActive(t)
	const writes = 3 * relayReplies / (64 << 10)
	body := must(proto.Marshal(putAndRead("k", make([]byte, 64<<10))))(t)
	s := newSession(true)
	var taken sync.WaitGroup
	all := make(chan struct{})
	taken.Go(func() {
		defer close(all)
		for id := range uint64(writes) {
			if err := s.execute(t.Context(), a.Gateway, item{id, itemTxn, body}); err != nil {
				if !errors.Is(err, rpctypes.ErrGRPCStopped) {
					t.Error(err)
				}
				return
			}
			s.mu.Lock()
			for s.under > 0 { // one write after the other
				s.replied.Wait()
			}
			s.mu.Unlock()
		}
	})
	defer taken.Wait()
	defer s.stop()
	for waits := false; !waits; {
		s.mu.Lock()
		waits = s.waits
		s.mu.Unlock()
		select {
		case <-all:
			t.Fatalf("%d bytes of replies wait", len(s.out))
		default:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.out) > relayReplies+128<<10 {
		t.Errorf("%d bytes of replies wait", len(s.out))
	}
}

// A request that the log cannot take fails alone, not with the others of its batch.
func TestTooLargeFailsAlone(t *testing.T) {
	a := start(t, startChain(t), Options{LogEntries: 64})
	a.waitActive(t)
	l := a.where().lead
	large := make([]byte, 200<<10)
	rand.Read(large) // never fails
	var waiters []waiter
	l.proposals.mu.Lock()
	for _, value := range [][]byte{[]byte("small"), large, []byte("small")} {
		command := &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("k"), Value: value}}
		w := make(waiter, 1)
		waiters = append(waiters, w)
		p := &proposal{command: keyspace.CommandOf(command), encoded: must(proto.Marshal(command))(t), caller: w}
		l.proposals.waiting, l.proposals.bytes = append(l.proposals.waiting, p), l.proposals.bytes+len(p.encoded)
	}
	l.proposals.mu.Unlock()
	signal(l.proposals.filled)
	for i, want := range []error{nil, rpctypes.ErrGRPCRequestTooLarge, nil} {
		if a := <-waiters[i]; !errors.Is(a.err, want) {
			t.Errorf("request %d: %v, want %v", i, a.err, want)
		}
	}
}

// TestTransactionsReadLittle: a transaction that would read more than 16 MiB is refused at every gateway, whether it writes
// or only reads, and the keyspace goes on.
func TestTransactionsReadLittle(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c, ctx := open(t, g.address), t.Context()
		must(c.Put(ctx, "big", string(make([]byte, 1<<20))))(t)
		revision := must(c.Put(ctx, "new", "1"))(t).Header.Revision
		reads := make([]clientv3.Op, 100)
		for i := range reads {
			reads[i] = clientv3.OpGet("\x00", clientv3.WithFromKey())
		}
		for name, ops := range map[string][]clientv3.Op{
			"writes": append(reads, clientv3.OpPut("new", "2")), "reads": reads,
		} {
			if _, err := c.Txn(ctx).Then(ops...).Commit(); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r := must(c.Get(ctx, "new"))(t); r.Kvs[0].ModRevision != revision {
			t.Errorf("%v, want revision %d", r.Kvs, revision)
		}
	}
}

// TestLargeAnswersAreNotMade: a read whose answer takes more than the gateway's memory for answers is refused before the
// answer is made, at every gateway. Its connection goes on.
func TestLargeAnswersAreNotMade(t *testing.T) {
	const memory, values, value = 4 << 20, 8, 1 << 20
	cluster := startChain(t)
	limited := func() *gateway {
		return start(t, cluster, Options{LogEntries: 4096, memory: grpcserver.NewMemory(memory)})
	}
	a := limited()
	a.waitActive(t)
	gateways := []*gateway{a, limited()}
	var last int64
	for i := range values {
		last = must(open(t, a.address).Put(t.Context(), fmt.Sprint(i), string(make([]byte, value))))(t).Header.Revision
	}
	for _, g := range gateways {
		eventually(t, "its copy has the values", func() bool { return g.current().Revision() >= last })
	}
	for _, g := range gateways {
		c, ctx := open(t, g.address), t.Context()
		everything := []clientv3.OpOption{clientv3.WithFromKey()}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, ranged := c.Get(ctx, "\x00", everything...)
		_, copied := c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithSerializable())
		_, sorted := c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithLimit(1),
			clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))
		_, txn := c.Txn(ctx).Then(clientv3.OpGet("\x00", everything...)).Commit()
		runtime.ReadMemStats(&after)
		for name, err := range map[string]error{"range": ranged, "copy": copied, "sorted": sorted, "transaction": txn} {
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "read fewer keys") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*values*value { // four answers and their encodings take more
			t.Errorf("%d bytes were made for answers that were refused", n)
		}
		if r := must(c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithLimit(1)))(t); len(r.Kvs) != 1 {
			t.Errorf("a read of one key: %d keys", len(r.Kvs))
		}
	}
}

// wire forwards connections until it is cut: then it takes bytes and forwards none, as a network that lost a link.
type wire struct {
	net.Listener
	cut chan struct{}
}

func startWire(t *testing.T) *wire {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return &wire{l, make(chan struct{})}
}

// forward takes connections to an address, until the listener is closed.
func (w *wire) forward(to string) {
	for {
		in, err := w.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		go w.copy(in, out)
		go w.copy(out, in)
	}
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		select {
		case <-w.cut:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// Writes at a gateway end when the network between it and the active one is interrupted, without a reset.
func TestInterruptedPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("gRPC probes a silent connection after 10 s")
	}
	cluster, w := startChain(t), startWire(t)
	a := start(t, cluster, Options{Advertise: w.Addr().String()})
	go w.forward(a.address)
	a.waitActive(t)
	b := start(t, cluster, Options{})
	c := open(t, b.address)
	must(c.Put(t.Context(), "k", "1"))(t)
	close(w.cut)
	if _, err := c.Put(t.Context(), "k", "2"); err == nil {
		t.Error("the active gateway executed a write that did not reach it")
	}
}
