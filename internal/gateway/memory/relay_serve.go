package memory

import (
	"context"
	"errors"
	"io"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// serveRelay executes the writes of another gateway.
func (g *Gateway) serveRelay(stream grpc.ServerStream) error {
	space, release, err := g.present()
	if err != nil {
		return err
	}
	release = sync.OnceFunc(release)
	defer release()
	s := newSession(g.ofGateway(stream.Context()))
	if err := s.admit(space.Auth()); err != nil {
		return err
	}
	defer g.joins(stream.Context())()
	if err := stream.SendHeader(g.greeting()); err != nil {
		return err
	}
	defer context.AfterFunc(stream.Context(), s.stop)()
	received := make(chan error, 1)
	go func() {
		for err == nil {
			err = each(stream.RecvMsg, func(i item) error { return s.execute(stream.Context(), g, i) })
			s.flush()
		}
		received <- err
	}()
	done := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() { s.send(done, stream) })
	select {
	case err := <-received:
		release()
		close(done)
		sending.Wait()
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-space.Gone():
	}
	s.executing.Lock()
	s.ended = true
	s.executing.Unlock()
	release() // the other gateway may not read its replies, and the keyspace does not wait for it
	s.finish()
	close(done)
	sending.Wait()
	if err := s.sendReplies(stream); err != nil {
		return err
	}
	return rpctypes.ErrGRPCStopped
}

// execute begins a write, or refuses it. It waits while too many replies wait, or while the commands that are queued
// may fill the keyspace.
func (s *session) execute(ctx context.Context, g *Gateway, i item) error {
	if err := s.await(); err != nil {
		return err
	}
	s.executing.Lock()
	defer s.executing.Unlock()
	if s.ended {
		return rpctypes.ErrGRPCStopped
	}
	g.mu.Lock()
	l, store := g.lead, g.space.Auth()
	g.mu.Unlock()
	if err := s.admit(store); err != nil {
		return err
	}
	if l == nil {
		s.reply(&item{id: i.id, kind: itemRefused})
		return nil
	}
	l.beginRelayed(ctx, s, i)
	return nil
}

// beginRelayed proposes a write. It refuses a client's write that needs a handler.
func (l *leader) beginRelayed(ctx context.Context, s *session, i item) {
	p := &proposal{caller: &relayedCall{l, s, i.id}}
	err := errNotActive
	ok := false
	switch i.kind {
	case itemCommand:
		p.command, p.encoded, err = decodeCommand(i.body, s.proven)
		ok = err == nil
	case itemTxn:
		p.command, p.encoded, ok = decode(pb.KV_Txn_FullMethodName, i.body)
	default:
		p.command, p.encoded, ok = decode(pb.KV_Put_FullMethodName, i.body)
	}
	s.begin()
	if ok {
		err = l.submit(ctx, p)
	}
	if err != nil {
		p.caller.finish(keyspace.Answer{}, err)
	}
}

// session is a stream of another gateway.
type session struct {
	proven bool          // the other gateway has the keyspace's secret
	filled chan struct{} // has an element if there are replies

	executing sync.Mutex
	ended     bool // no more writes are executed; executing guards it

	mu      sync.Mutex
	replied *sync.Cond // a write has ended, or replies were sent
	out     []byte
	under   int  // writes under way
	waits   bool // a write waits for replied
	stopped bool // the stream has ended: none waits
}

// A stream is not read while it has as many writes under way as a connection may have calls, or while as many bytes of
// replies wait for the other gateway.
const (
	relayWrites  = 10_000
	relayReplies = 4 << 20
)

func newSession(proven bool) *session {
	s := &session{proven: proven, filled: make(chan struct{}, 1)}
	s.replied = sync.NewCond(&s.mu)
	return s
}

// admit refuses streams of clients while authentication is enabled.
func (s *session) admit(store auth.AuthStore) error {
	if !s.proven && store.IsAuthEnabled() {
		return rpctypes.ErrGRPCPermissionDenied
	}
	return nil
}

// await waits until one more write may begin.
func (s *session) await() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped && (s.under >= relayWrites || len(s.out) >= relayReplies) {
		s.waits = true
		s.replied.Wait()
	}
	s.waits = false
	if s.stopped {
		return rpctypes.ErrGRPCStopped
	}
	return nil
}

// stop ends the wait of await.
func (s *session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.replied.Broadcast()
}

// finish ends the wait of await, and waits for the outcome of all writes under way.
func (s *session) finish() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.under > 0 {
		s.replied.Wait()
	}
}

// begin and end count a write under way.
func (s *session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under++
}

func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	s.replied.Broadcast()
}

func (s *session) reply(i *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = i.append(s.out)
}

func (s *session) flush() { signal(s.filled) }

// send sends replies until done is closed.
func (s *session) send(done <-chan struct{}, stream grpc.ServerStream) {
	for {
		select {
		case <-done:
			return
		case <-s.filled:
		}
		if s.sendReplies(stream) != nil {
			return
		}
	}
}

func (s *session) sendReplies(stream grpc.ServerStream) error {
	s.mu.Lock()
	out := s.out
	s.out = nil
	s.replied.Broadcast()
	s.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	return stream.SendMsg(&wrapperspb.BytesValue{Value: out})
}

// relayedCall is the caller of a write of another gateway.
type relayedCall struct {
	l  *leader
	s  *session
	id uint64
}

func (c *relayedCall) finish(a keyspace.Answer, err error) {
	reply := item{id: c.id, kind: itemAnswer}
	reply.body, err = c.l.encode(&a, err)
	switch {
	case errors.Is(err, errNotActive):
		reply.kind = itemRefused
	case err != nil:
		reply.kind = itemFailed
		reply.body, _ = proto.Marshal(status.Convert(err).Proto()) // a status can be encoded
	}
	c.s.reply(&reply)
	c.s.end()
}

func (c *relayedCall) flush() { c.s.flush() }
