package memory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// requestTimeout is how long a call waits for an active gateway; etcd waits about as long.
	requestTimeout = 7 * time.Second
	// routeEvery is how often a waiting call looks for the active gateway if nothing tells it.
	routeEvery = 50 * time.Millisecond
	// probeEvery is how often a silent connection to the active gateway is probed: gRPC's shortest time. Calls on one that is
	// interrupted would wait until TCP gives up, a quarter of an hour later.
	probeEvery = 10 * time.Second
	// forwarded marks calls of other gateways, which are not forwarded again.
	forwarded = "netcraq-memory-forwarded"
	// maxMessageBytes bounds the answers of other gateways.
	maxMessageBytes = 1<<31 - 1
)

// reconnect is how soon another gateway is tried again.
var reconnect = backoff.Config{
	BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond,
}

// leads notes that this gateway is active, or that it no longer is.
func (g *Gateway) leads(l *leader) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lead = l; l != nil {
		g.term = max(g.term, l.term)
	}
	g.notify()
}

// follows notes the address of the active gateway. Calls that are under way at another one end.
func (g *Gateway) follows(holder string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if holder == g.holder {
		return
	}
	g.disconnect()
	if holder != "" && holder != g.o.Advertise {
		conn, err := grpc.NewClient("passthrough:///"+holder, grpc.WithTransportCredentials(g.o.Peers),
			grpc.WithContextDialer(dial), grpc.WithPerRPCCredentials(proof{g}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: probeEvery, Timeout: requestTimeout}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)))
		if err != nil {
			g.o.Log.Warn("the active gateway advertises an address that cannot be used", "address", holder, "error", err)
			return
		}
		conn.Connect()
		g.conn, g.relay = conn, newRelay(g, conn)
	}
	g.holder = holder
	g.notify()
}

// unreachable is in the errors of calls that were not sent because there was no connection.
const unreachable = "the active gateway cannot be reached"

func dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", unreachable, err)
	}
	return conn, nil
}

// notSent reports whether a call certainly had no effect. sentTo is the receiver of its last attempt, if there was one:
// gRPC repeats a call that its receiver has not seen.
func notSent(err error, sentTo *peer.Peer) bool {
	return err != nil && (sentTo.Addr == nil || strings.Contains(status.Convert(err).Message(), unreachable))
}

// disconnect and notify need g.mu.
func (g *Gateway) disconnect() {
	if g.conn != nil {
		if err := g.conn.Close(); err != nil {
			g.o.Log.Debug("a connection", "error", err)
		}
		g.relay.cancel()
		g.conn, g.relay, g.leader = nil, nil, 0
	}
}

func (g *Gateway) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// destination is where calls go: to this gateway if it is active, to the active one, or nowhere until changed is
// closed.
type destination struct {
	lead    *leader
	conn    *grpc.ClientConn // reads
	relay   *relay           // writes
	changed <-chan struct{}
}

// where is where calls go now.
func (g *Gateway) where() destination {
	g.mu.Lock()
	defer g.mu.Unlock()
	return destination{g.lead, g.conn, g.relay, g.changed}
}

// remote answers a call at the active gateway.
type remote[A any] func(context.Context, *grpc.ClientConn, ...grpc.CallOption) (A, error)

// route answers a call here, if this gateway is active, or has the active one answer it. It waits for one. The call may
// be made more than once.
func route[A any](ctx context.Context, g *Gateway, local func(context.Context, *leader) (A, error),
	remote remote[A]) (A, error) {
	return await(ctx, g, func(to destination) (A, error) {
		if to.lead != nil {
			return local(ctx, to.lead)
		}
		return ask(ctx, g, to.conn, remote)
	})
}

// await attempts a call until its attempt had an effect. An attempt had none if its error is errNotActive.
func await[A any](ctx context.Context, g *Gateway, attempt func(destination) (A, error)) (A, error) {
	waiting, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		to := g.where()
		a, err := attempt(to)
		if !errors.Is(err, errNotActive) {
			return a, err
		}
		pause(waiting, to.changed, routeEvery)
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if waiting.Err() != nil {
			return a, rpctypes.ErrGRPCNoLeader
		}
	}
}

// ask has the active gateway answer a call, or had no effect: errNotActive.
func ask[A any](ctx context.Context, g *Gateway, conn *grpc.ClientConn, remote remote[A]) (a A, err error) {
	if conn == nil || conn.GetState() != connectivity.Ready || wasForwarded(ctx) {
		if conn != nil {
			conn.Connect()
		}
		return a, errNotActive
	}
	outgoing, err := g.forward(ctx)
	if err != nil {
		return a, err
	}
	var sentTo peer.Peer
	a, err = remote(outgoing, conn, grpc.Peer(&sentTo))
	switch {
	case notSent(err, &sentTo) && ctx.Err() == nil:
		return a, errNotActive
	case errors.Is(rpctypes.Error(err), rpctypes.ErrNotLeader):
		return a, errNotActive
	case broken(err) && ctx.Err() == nil:
		return a, errNotActive
	}
	return a, err
}

// broken reports whether a call ended with its connection, which may have been closed for that of the next gateway.
// Such a call of [route] may be made again: it reads, or renews a lease.
func broken(err error) bool {
	var answered rpctypes.EtcdError
	code := status.Code(err)
	return (code == codes.Unavailable || code == codes.Canceled) && !errors.As(rpctypes.Error(err), &answered)
}

func wasForwarded(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	return len(md.Get(forwarded)) > 0
}
