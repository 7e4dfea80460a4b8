package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

const (
	// silentAfter is when an idle connection is tried out, and given up if nothing comes back.
	silentAfter = time.Second
	// redial is the longest time between two attempts to reach another controller.
	redial = 250 * time.Millisecond
	// leaseLeftTry bounds one question for the lease left.
	leaseLeftTry = time.Second
	// leaseLeftPause is between two attempts.
	leaseLeftPause = 10 * time.Millisecond
)

// peer is another controller.
type peer struct {
	address string
	conn    *grpc.ClientConn
	client  controllerv1.ControllerClient
	change  atomic.Uint64          // that it is known to have applied
	version atomic.Pointer[string] // of its program; nil: not known yet
}

// peers are the other controllers. Their set changes (L7).
type peers struct {
	self    string
	options []grpc.DialOption

	mu        sync.Mutex
	byAddress map[string]*peer
}

func newPeers(self string, options []grpc.DialOption) *peers {
	return &peers{self: self, options: options, byAddress: make(map[string]*peer)}
}

// get returns the controller at an address; nil: it is none of the others.
func (p *peers) get(address string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byAddress[address]
}

func (p *peers) all() []*peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.byAddress))
}

// follow keeps connections to all controllers at these addresses but this one, and to no others.
func (p *peers) follow(addresses []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, one := range p.byAddress {
		if !slices.Contains(addresses, address) {
			one.conn.Close()
			delete(p.byAddress, address)
		}
	}
	for _, address := range addresses {
		if address == p.self || p.byAddress[address] != nil {
			continue
		}
		conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silentAfter, Timeout: silentAfter, PermitWithoutStream: true}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: redial / 10, Multiplier: 1.6, MaxDelay: redial}, MinConnectTimeout: silentAfter,
			}),
		}, p.options...)...)
		if err != nil {
			return fmt.Errorf("controller %s: %w", address, err)
		}
		p.byAddress[address] = &peer{address: address, conn: conn, client: controllerv1.NewControllerClient(conn)}
		conn.Connect()
	}
	return nil
}

func (p *peers) close() { _ = p.follow(nil) } // nothing is dialed

// reachable reports whether there is a connection at this moment. If none is tried, because the one before ended and nothing
// was sent since, it begins to try.
func (p *peer) reachable() bool {
	state := p.conn.GetState()
	if state == connectivity.Idle {
		p.conn.Connect()
	}
	return state == connectivity.Ready
}

// gone waits until the process behind the peer has certainly ended: there is no connection, and its address refuses one.
// It returns false when ctx ends before.
func (p *peer) gone(ctx context.Context) bool {
	for ctx.Err() == nil {
		state := p.conn.GetState()
		if state == connectivity.Ready {
			p.conn.WaitForStateChange(ctx, state)
			continue
		}
		if p.refuses(ctx) {
			return ctx.Err() == nil
		}
		if state == connectivity.Idle {
			p.conn.Connect()
		}
		wait, cancel := context.WithTimeout(ctx, redial)
		p.conn.WaitForStateChange(wait, state)
		cancel()
	}
	return false
}

// refuses tries a connection. A machine that is away refuses nothing: it does not answer.
func (p *peer) refuses(ctx context.Context) bool {
	dialer := net.Dialer{Timeout: redial}
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// applied notes that the peer has a change.
func (p *peer) applied(change uint64) {
	for before := p.change.Load(); before < change && !p.change.CompareAndSwap(before, change); {
		before = p.change.Load()
	}
}

// programVersion is the version of its program; empty: it is not known.
func (p *peer) programVersion() string {
	if v := p.version.Load(); v != nil {
		return *v
	}
	return ""
}

// leaseLeft asks until the peer has answered or ctx ends.
func (p *peer) leaseLeft(ctx context.Context, f reconfig.LeaseWait) (left time.Duration, ok bool) {
	in := &controllerv1.FenceRequest{Change: f.Change}
	for _, id := range f.Nodes {
		in.Nodes = append(in.Nodes, uint32(id))
	}
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, leaseLeftTry)
		out, err := p.client.Fence(try, in, grpc.WaitForReady(true))
		if err == nil {
			cancel()
			p.applied(f.Change)
			p.version.Store(&out.Version)
			return time.Duration(out.GetLeftUs()) * time.Microsecond, true
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(leaseLeftPause):
		}
	}
	return 0, false
}
