package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// pairOfStores is a memory keyspace with a copy that applies the same commands from their encodings, as another gateway
// does, beside etcd's own store.
type pairOfStores struct {
	active, other *keyspace.Keyspace
	etcd          *etcdStore
}

func newPair(t testing.TB, name string) *pairOfStores {
	t.Helper()
	p := &pairOfStores{etcd: newEtcdStore(t, name)}
	for _, k := range []**keyspace.Keyspace{&p.active, &p.other} {
		var err error
		if *k, err = keyspace.New(1, keyspace.Tokens{}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *pairOfStores) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(p.active.Close(), p.other.Close()); err != nil {
		t.Error(err)
	}
	p.etcd.close(t)
}

// errSkipped: a memory keyspace refuses what etcd takes, as documented.
var errSkipped = errors.New("not compared")

// refused reports whether a memory keyspace refuses a transaction for a reason of its own.
func refused(q proto.Message) bool {
	transaction, ok := q.(*pb.TxnRequest)
	return ok && etcdCheck(transaction) == nil && keyspace.Executable(transaction) != nil
}

// check makes a command of a request, as a gateway does. It returns none for one that only reads.
func check(q proto.Message, message []byte) (command *keyspace.Command, encoded []byte, err error) {
	var r *pb.InternalRaftRequest
	switch q := q.(type) {
	case *pb.RangeRequest:
		return nil, nil, checkRange(q)
	case *pb.TxnRequest:
		if c, encoded, ok := decode(pb.KV_Txn_FullMethodName, message); ok {
			return &c, encoded, nil
		}
		switch err := checkTxn(q); {
		case err != nil || txn.IsTxnReadonly(q):
			return nil, nil, err
		case readsHistory(q):
			return nil, nil, errSkipped
		}
		r = &pb.InternalRaftRequest{Txn: q}
	case *pb.PutRequest:
		if c, encoded, ok := decode(pb.KV_Put_FullMethodName, message); ok {
			return &c, encoded, nil
		}
		r, err = &pb.InternalRaftRequest{Put: q}, checkPut(q)
	case *pb.DeleteRangeRequest:
		if len(q.Key) == 0 {
			return nil, nil, etcdCheckDelete(q)
		}
		r = &pb.InternalRaftRequest{DeleteRange: q}
	case *pb.CompactionRequest:
		r = &pb.InternalRaftRequest{Compaction: q}
	case *pb.LeaseGrantRequest:
		r = &pb.InternalRaftRequest{LeaseGrant: q}
	case *pb.LeaseRevokeRequest:
		r = &pb.InternalRaftRequest{LeaseRevoke: q}
	}
	if err != nil {
		return nil, nil, err
	}
	c := keyspace.CommandOf(r)
	encoded, err = proto.Marshal(r)
	return &c, encoded, err
}

// do answers a request as a gateway does.
func (p *pairOfStores) do(t testing.TB, q proto.Message, message []byte) (proto.Message, error) {
	t.Helper()
	command, encoded, err := check(q, message)
	if err != nil {
		return nil, err
	}
	if command == nil {
		return p.read(q)
	}
	a, err := p.active.Apply(command)
	followed, err2 := keyspace.Decode(encoded)
	if err2 != nil {
		t.Fatalf("another gateway cannot decode the command: %v", err2)
	}
	b, err2 := p.other.Apply(&followed)
	if errors.Is(err, keyspace.ErrBroken) || errors.Is(err2, keyspace.ErrBroken) {
		t.Fatalf("the store panicked: %v, %v", err, err2)
	}
	if status.Convert(rpcError(err)).String() != status.Convert(rpcError(err2)).String() {
		t.Fatalf("one gateway answers %v, another one %v", err, err2)
	}
	if err != nil {
		return nil, err
	}
	if x, y := a.Message(), b.Message(); !proto.Equal(x, y) {
		t.Fatalf("one gateway answers %v, another one %v", x, y)
	}
	return a.Message(), nil
}

func (p *pairOfStores) read(q proto.Message) (proto.Message, error) {
	if q, ok := q.(*pb.RangeRequest); ok {
		found, err := p.active.Find(context.Background(), q, 0)
		if err != nil {
			return nil, err
		}
		encoded, err := found.Append(nil)
		if err == nil && len(encoded) != found.Size() {
			err = fmt.Errorf("%d bytes, want %d", len(encoded), found.Size())
		}
		a := new(pb.RangeResponse)
		return a, errors.Join(err, proto.Unmarshal(encoded, a))
	}
	k := p.active
	a, _, err := txn.Txn(context.Background(), etcdQuiet, q.(*pb.TxnRequest), true, k.Store(), k.Leases(), false)
	return a, err
}

// step gives an input to both stores and compares their answers.
func (p *pairOfStores) step(t testing.TB, input []byte) {
	t.Helper()
	if len(input) == 0 {
		return
	}
	q := kinds[int(input[0])%len(kinds)].ProtoReflect().New().Interface()
	if proto.Unmarshal(input[1:], q) != nil {
		return // both refuse it before
	}
	if grant, ok := q.(*pb.LeaseGrantRequest); ok && grant.ID == 0 {
		return // both choose a number
	}
	got, err := p.do(t, q, input[1:])
	if errors.Is(err, errSkipped) || err != nil && refused(q) {
		return
	}
	want, wantErr := p.etcd.do(q)
	if x, y := status.Convert(rpcError(err)).String(), status.Convert(wantErr).String(); x != y {
		t.Fatalf("%T: %v, etcd's answer is %v (%v): %s", q, x, y, want, prototext.Format(q))
	}
	if err != nil {
		return
	}
	if h := want.(headed).GetHeader(); h != nil {
		h.ClusterId, h.MemberId, h.RaftTerm = 0, 0, 0
	}
	if !proto.Equal(got, want) {
		t.Fatalf("%T: %v\netcd's answer is %v\nto %s", q, got, want, prototext.Format(q))
	}
}

// compareAll compares all that the stores have.
func (p *pairOfStores) compareAll(t testing.TB) {
	t.Helper()
	everything := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	want, err := p.etcd.answer(everything)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*keyspace.Keyspace{p.active, p.other} {
		got, _, err := txn.Range(t.Context(), etcdQuiet, k.Store(), everything, true)
		if err != nil || !proto.Equal(got, want) {
			t.Fatalf("the keyspace has %v (%v), etcd %v", got, err, want)
		}
	}
}

// commandsEach is how many commands a pair gets.
const commandsEach = 5000

// TestBesideEtcd gives random requests, a quarter of them damaged, to a memory keyspace and to etcd's own checks, apply
// and store, and compares all answers. NETCRAQ_COMMANDS and NETCRAQ_SEED change the number of requests and the seed.
func TestBesideEtcd(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			return otherwise
		}
		return n
	}
	commands, seed := number("NETCRAQ_COMMANDS", 20_000), number("NETCRAQ_SEED", rand.Uint64())
	t.Logf("seed %d", seed)
	r := &requests{Rand: rand.New(rand.NewPCG(seed, 0)), revision: 1}
	done, dir := uint64(0), t.TempDir()
	for n := 0; done < commands; n++ {
		p := newPair(t, file(dir, n))
		for i := 0; i < commandsEach && done < commands; i++ {
			p.step(t, r.next())
			r.revision = p.active.Revision()
			if done++; done%1_000_000 == 0 {
				t.Logf("%d commands", done)
			}
		}
		p.compareAll(t)
		p.close(t)
		if err := os.Remove(file(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d commands have equal answers", done)
}

// FuzzBesideEtcd splits its input into requests. Each begins with its length, in a byte.
func FuzzBesideEtcd(f *testing.F) {
	r := &requests{Rand: rand.New(rand.NewPCG(1, 2)), revision: 5}
	for range 50 {
		var input []byte
		for range 8 {
			if next := r.next(); len(next) < 256 {
				input = append(append(input, byte(len(next))), next...)
			}
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		p := newPair(t, file(t.TempDir(), 0))
		for len(input) > 0 {
			n := min(int(input[0]), len(input)-1)
			p.step(t, input[1:1+n])
			input = input[1+n:]
		}
		p.compareAll(t)
		p.close(t)
	})
}
