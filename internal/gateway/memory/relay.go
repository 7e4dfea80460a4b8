package memory

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

const (
	// relayMethod is a stream between gateways. Its messages have the writes, and the responses to them, of one moment.
	relayMethod = "/netcraq.memory.Relay/Writes"
	// relayAgain is the pause before a stream is opened again. No write is forwarded meanwhile.
	relayAgain = 100 * time.Millisecond
	// relayBytes limits the writes of one message, unless one write is longer.
	relayBytes = 256 << 10
)

var relayStream = grpc.StreamDesc{StreamName: "Writes", ServerStreams: true, ClientStreams: true}

// relay is the one way in which a gateway forwards writes to the active one. A write of a client that certainly was not
// executed gets a handler, which waits for an active gateway.
type relay struct {
	g      *Gateway
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	filled chan struct{} // has an element if writes may wait

	mu      sync.Mutex
	open    bool
	last    uint64
	waiting []*relayed
	sent    map[uint64]*relayed
}

// relayed is a write that the active gateway executes.
type relayed struct {
	item
	origin origin
}

// origin receives the outcome of a relayed write, once: a client's call ([grpcserver.Call]), or a handler.
type origin interface {
	Answer(response []byte)
	Fail(err error)
	// Pass takes the write back: it was not executed and will not be.
	Pass(write []byte)
	// Flush is called after the outcomes of a message.
	Flush()
}

// handler is a goroutine that waits for the outcome of its write.
type handler chan outcome

type outcome struct {
	response []byte
	err      error
}

// Answer implements origin.
func (h handler) Answer(response []byte) { h <- outcome{response: response} }

// Fail implements origin.
func (h handler) Fail(err error) { h <- outcome{err: err} }

// Pass implements origin.
func (h handler) Pass([]byte) { h <- outcome{err: errNotActive} }

// Flush implements origin.
func (h handler) Flush() {}

func newRelay(g *Gateway, conn *grpc.ClientConn) *relay {
	ctx, cancel := context.WithCancel(g.introduced(context.Background()))
	r := &relay{g: g, conn: conn, cancel: cancel, filled: make(chan struct{}, 1), sent: make(map[uint64]*relayed)}
	go r.run(ctx)
	return r
}

// run keeps a stream open until ctx ends.
func (r *relay) run(ctx context.Context) {
	for ctx.Err() == nil {
		if r.g.known(ctx) != nil { // it has no secret yet
			continue
		}
		within, cancel := context.WithCancel(ctx)
		stream, err := r.conn.NewStream(within, &relayStream, relayMethod, grpc.WaitForReady(true))
		if err == nil {
			r.serve(within, cancel, stream)
		}
		cancel()
		pause(ctx, nil, relayAgain)
	}
}

// serve relays writes until the stream ends.
func (r *relay) serve(ctx context.Context, cancel context.CancelFunc, stream grpc.ClientStream) {
	greeting, err := stream.Header()
	if err != nil {
		return
	}
	r.g.greeted(greeting)
	r.mu.Lock()
	r.open = true
	r.mu.Unlock()
	var sending sync.WaitGroup
	sending.Go(func() {
		defer cancel()
		r.send(ctx, stream)
	})
	for err == nil {
		var done []origin
		err = each(stream.RecvMsg, func(i item) error {
			o, err := r.finish(i)
			if o != nil {
				done = append(done, o)
			}
			return err
		})
		for _, o := range done {
			o.Flush()
		}
	}
	cancel()
	sending.Wait()
	r.end(errors.Is(rpctypes.Error(err), rpctypes.ErrStopped))
}

// begin takes a client's write if there is a stream. Too large a write is refused by its handler.
func (r *relay) begin(c *grpcserver.Call, method string, message []byte) bool {
	kind := byte(itemPut)
	if method == pb.KV_Txn_FullMethodName {
		kind = itemTxn
	}
	return len(message) <= r.g.o.MaxRequestBytes && r.push(&timedCall{c, method, time.Now(), r.g.times}, kind, message)
}

// perform has a command executed for a handler, and returns the encoded response. The error errNotActive means that the
// command was not executed and will not be.
func (r *relay) perform(ctx context.Context, command []byte) (response []byte, err error) {
	h := make(handler, 1)
	if !r.push(h, itemCommand, command) {
		return nil, errNotActive
	}
	select {
	case o := <-h:
		return o.response, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// push has a write sent if there is a stream.
func (r *relay) push(o origin, kind byte, write []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return false
	}
	r.last++
	r.waiting = append(r.waiting, &relayed{item{r.last, kind, bytes.Clone(write)}, o})
	if len(r.waiting) == 1 {
		signal(r.filled)
	}
	return true
}

// send sends the waiting writes until ctx ends.
func (r *relay) send(ctx context.Context, stream grpc.ClientStream) {
	var message wrapperspb.BytesValue
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.filled:
		}
		for {
			if message.Value = r.take(message.Value[:0]); len(message.Value) == 0 {
				break
			}
			if stream.SendMsg(&message) != nil {
				return
			}
		}
	}
}

// take encodes the next writes.
func (r *relay) take(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ; n < len(r.waiting) && len(b) < relayBytes; n++ {
		w := r.waiting[n]
		b = w.append(b)
		r.sent[w.id] = w
	}
	r.waiting = r.waiting[n:]
	return b
}

// finish gives the outcome of a write to its origin.
func (r *relay) finish(i item) (origin, error) {
	r.mu.Lock()
	w := r.sent[i.id]
	delete(r.sent, i.id)
	r.mu.Unlock()
	if w == nil {
		return nil, errRelay
	}
	switch i.kind {
	case itemAnswer:
		w.origin.Answer(i.body)
	case itemRefused:
		w.origin.Pass(w.body)
	default:
		s := new(statuspb.Status)
		if err := proto.Unmarshal(i.body, s); err != nil {
			w.origin.Fail(rpctypes.ErrGRPCTimeoutDueToLeaderFail)
			return w.origin, err
		}
		w.origin.Fail(status.FromProto(s).Err())
	}
	return w.origin, nil
}

// end gives the writes that were not executed to handlers, and fails those whose outcome is unknown. These are the ones
// that were sent, unless the other gateway has ended the stream itself: it answers all that it has executed before.
func (r *relay) end(answered bool) {
	r.mu.Lock()
	waiting, sent := r.waiting, r.sent
	r.open, r.waiting, r.sent = false, nil, make(map[uint64]*relayed)
	r.mu.Unlock()
	for _, w := range sent {
		if answered {
			w.origin.Pass(w.body)
			continue
		}
		w.origin.Fail(rpctypes.ErrGRPCTimeoutDueToLeaderFail)
		w.origin.Flush()
	}
	for _, w := range waiting {
		w.origin.Pass(w.body)
	}
}
