package member

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	etcdruntime "go.etcd.io/etcd/pkg/v3/runtime"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/serve"
)

// Package embed gives connections with TLS to net/http, which gives them to nobody else. So the front takes them from
// the listener before. A client of gRPC offers HTTP/2 and not HTTP/1.1 in its first message; all other clients, such
// as those that read pages, stay with embed. etcd's own TLS listener, with etcd's configuration, makes the connection
// in either case. A client without HTTP/1.1 that asks for a page is refused, as without TLS. If etcd changes its
// listener, its own server serves TLS, and the log says so.

// takeSecure has the listeners of a server changed before it accepts the first connection.
func (f *Front) takeSecure(c *embed.Config) {
	before := c.ServiceRegister
	var once sync.Once
	c.ServiceRegister = func(s *grpc.Server) { // each listener's goroutine calls it, and accepts connections after that
		if before != nil {
			before(s)
		}
		once.Do(func() {
			select {
			case e := <-f.running:
				if err := f.take(e); err != nil {
					e.GetLogger().Warn("etcd's own gRPC server serves clients with TLS, which takes more CPU time", zap.Error(err))
				}
			case <-f.stopped:
			}
		})
	}
}

// Running tells the front of the server that [Front.Configure] was called for.
func (f *Front) Running(e *embed.Etcd) {
	select {
	case f.running <- e:
	default: // it is told once
	}
}

// take puts a picker between each listener of the server and its socket.
func (f *Front) take(e *embed.Etcd) error {
	info := e.Config().ClientTLSInfo
	var errs []error
	for _, l := range e.Clients {
		// transport.LimitListener, which is not exported, embeds the listener of the socket.
		inner := reflect.Indirect(reflect.ValueOf(l))
		if inner.Kind() == reflect.Struct {
			inner = inner.FieldByName("Listener")
		}
		if !inner.CanSet() || inner.Type() != reflect.TypeFor[net.Listener]() {
			errs = append(errs, fmt.Errorf("a listener of etcd is a %T", l))
			continue
		}
		p, err := f.newPicker(inner.Interface().(net.Listener), &info, e.GetLogger())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		inner.Set(reflect.ValueOf(net.Listener(p)))
	}
	return errors.Join(errs...)
}

// picker gives some connections of a listener to the front, and the others to whoever accepts from it.
type picker struct {
	net.Listener
	log    *zap.Logger
	closed context.Context
	close  context.CancelFunc
	others *queue
	ours   *queue // of clients that begin TLS, and offer HTTP/2 and not HTTP/1.1
}

// reservedFiles is what etcd leaves for files other than connections.
const reservedFiles = 150

// newPicker begins to accept from a listener.
func (f *Front) newPicker(l net.Listener, info *transport.TLSInfo, log *zap.Logger) (*picker, error) {
	if most, err := etcdruntime.FDLimit(); err == nil && most > reservedFiles {
		l = transport.LimitListener(l, int(most-reservedFiles))
	}
	p := &picker{Listener: l, log: log, others: newQueue(l.Addr()), ours: newQueue(l.Addr())}
	p.closed, p.close = context.WithCancel(context.Background())
	secure, err := transport.NewTLSListener(p.ours, info)
	if err != nil {
		return nil, err
	}
	go p.run()
	go func() {
		for {
			n, err := secure.Accept()
			if err != nil {
				return
			}
			go f.serveConn(n)
		}
	}()
	return p, nil
}

// Accept implements [net.Listener].
func (p *picker) Accept() (net.Conn, error) { return p.others.Accept() }

// Close implements [net.Listener].
func (p *picker) Close() error {
	p.close()
	p.others.Close()
	p.ours.Close()
	return p.Listener.Close()
}

// run accepts connections until the listener is closed, or accepting fails for good. etcd's listener of TLS would accept
// nothing more after any error, such as a lack of descriptors.
func (p *picker) run() {
	err := serve.Accept(p.closed, p.Listener, func(n net.Conn) { go p.pick(n) }, func(err error) {
		if err != nil {
			p.log.Error("connections with TLS wait to be accepted", zap.Error(err))
		}
	})
	if err != nil {
		p.others.fail(err)
	}
	p.Close()
}

// helloWithin is how long a client may take to send its first message. Whoever gets the connection has limits of its own.
const helloWithin = 10 * time.Second

// pick gives a connection to whom it belongs.
func (p *picker) pick(n net.Conn) {
	_ = n.SetReadDeadline(time.Now().Add(helloWithin)) // an error says that it is closed
	offered, read := hello(n)
	_ = n.SetReadDeadline(time.Time{})
	to := p.others
	if slices.Contains(offered, http2.NextProtoTLS) && !slices.Contains(offered, "http/1.1") {
		to = p.ours
	}
	to.put(&replayed{n, read})
}

var errSeen = errors.New("the first message has been read")

// hello reads the first message of a client that begins TLS, and returns the protocols that it offers, with all that was read.
func hello(n net.Conn) (offered []string, read []byte) {
	r := &recorder{Conn: n}
	_ = tls.Server(r, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = h.SupportedProtos
		return nil, errSeen
	}}).Handshake() // it always fails
	return offered, r.read
}

// recorder keeps what is read, and writes nothing.
type recorder struct {
	net.Conn
	read []byte
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }

// replayed is a connection of which the beginning has been read already.
type replayed struct {
	net.Conn
	begin []byte
}

func (r *replayed) Read(b []byte) (int, error) {
	if len(r.begin) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.begin)
	r.begin = r.begin[n:]
	return n, nil
}

// queue is a listener whose connections are put into it.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	errs   chan error
	once   sync.Once
	closed chan struct{}
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, conns: make(chan net.Conn), errs: make(chan error), closed: make(chan struct{})}
}

// put waits until a connection is accepted. It closes the connection if the queue is closed.
func (q *queue) put(n net.Conn) {
	select {
	case q.conns <- n:
	case <-q.closed:
		n.Close()
	}
}

// fail waits until Accept has returned an error, or the queue is closed.
func (q *queue) fail(err error) {
	select {
	case q.errs <- err:
	case <-q.closed:
	}
}

// Accept implements [net.Listener].
func (q *queue) Accept() (net.Conn, error) {
	select {
	case n := <-q.conns:
		return n, nil
	case err := <-q.errs:
		return nil, err
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr implements [net.Listener].
func (q *queue) Addr() net.Addr { return q.addr }
