package peer

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/keyspacev1"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

const (
	// askWithin bounds a call without a content: a disk may sync for seconds.
	askWithin = 10 * time.Second
	// silentWithin bounds the time in which the next piece of a content is sent or received.
	silentWithin = 30 * time.Second
	// diskWithin bounds the time in which a disk has a content ready, or has synced one.
	diskWithin = 5 * time.Minute
	// probeEvery is how often a silent connection is probed: gRPC's shortest time. probeWithin bounds the answer, and how
	// long what is sent stays unacknowledged.
	probeEvery  = 10 * time.Second
	probeWithin = 3 * time.Second
	// windowBytes is how much of a content may be under way.
	windowBytes = 4 << 20
)

// reconnect is how soon another gateway is tried again.
var reconnect = backoff.Config{
	BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond,
}

// Peers calls the other gateways of a keyspace. It implements [driver.Peers].
type Peers struct {
	keyspace    Keyspace
	credentials credentials.TransportCredentials
	ctx         context.Context // ends with Close
	stop        context.CancelFunc
	reporting   sync.WaitGroup

	mu        sync.Mutex
	conns     map[string]*grpc.ClientConn // by address
	reporters map[driver.Gateway]*reporter
}

var _ driver.Peers = (*Peers)(nil)

// New makes the caller. c are the credentials towards other gateways.
func New(k Keyspace, c credentials.TransportCredentials) *Peers {
	p := &Peers{
		keyspace: k, credentials: c, conns: make(map[string]*grpc.ClientConn), reporters: make(map[driver.Gateway]*reporter),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends all calls.
func (p *Peers) Close() error {
	p.stop()
	p.reporting.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []error
	for _, conn := range p.conns {
		all = append(all, conn.Close())
	}
	clear(p.conns)
	return errors.Join(all...)
}

// conn returns the connection to an address.
func (p *Peers) conn(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil, context.Canceled
	}
	if conn := p.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(p.credentials),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: probeEvery, Timeout: probeWithin}),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes))
	if err != nil {
		return nil, err
	}
	p.conns[address] = conn
	return conn, nil
}

// call prepares a call to a gateway. cancel ends it.
func (p *Peers) call(ctx context.Context, to *driver.Gateway) (
	_ keyspacev1.PeersClient, _ context.Context, cancel context.CancelFunc, err error) {
	conn, err := p.conn(to.Address)
	if err != nil {
		return nil, nil, nil, err
	}
	if ctx, err = p.keyspace.calling(ctx, to.Disk.Name); err != nil {
		return nil, nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	unwatch := context.AfterFunc(p.ctx, stop)
	return keyspacev1.NewPeersClient(conn), ctx, func() { unwatch(); stop() }, nil
}

// Ask implements [driver.Peers].
func (p *Peers) Ask(ctx context.Context, to driver.Gateway, era uint64) (d core.Disk, a core.Answer, err error) {
	client, ctx, cancel, err := p.call(ctx, &to)
	if err != nil {
		return d, a, err
	}
	defer cancel()
	ctx, done := context.WithTimeout(ctx, askWithin)
	defer done()
	out, err := client.Ask(ctx, &keyspacev1.AskRequest{Era: era})
	if err != nil {
		return d, a, plain(&to, err)
	}
	d, a = decodeAnswer(out)
	return d, a, nil
}

// Install implements [driver.Peers].
func (p *Peers) Install(ctx context.Context, to driver.Gateway, base core.Position, content io.Reader) (
	d core.Disk, a core.Answer, err error) {
	client, ctx, cancel, err := p.call(ctx, &to)
	if err != nil {
		return d, a, err
	}
	defer cancel()
	silent := time.AfterFunc(askWithin, cancel)
	defer silent.Stop()
	stream, err := client.Install(ctx)
	if err == nil {
		err = stream.Send(&keyspacev1.InstallRequest{Base: encodePosition(base)})
	}
	var failed error // the content
	if err == nil {
		failed = inPieces(content, func(piece []byte) error {
			silent.Reset(silentWithin)
			err = late(silent, stream.Send(&keyspacev1.InstallRequest{Data: piece}))
			return err
		})
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF): // at an end, the answer says why
		return d, a, plain(&to, err)
	case err == nil && failed != nil:
		return d, a, failed
	}
	silent.Reset(diskWithin)
	out, err := stream.CloseAndRecv()
	if err != nil {
		return d, a, plain(&to, late(silent, err))
	}
	d, a = decodeAnswer(out)
	return d, a, nil
}

// late ends the wait for a message. It says if the call was ended because none came.
func late(silent *time.Timer, err error) error {
	if !silent.Stop() && status.Code(err) == codes.Canceled {
		return status.Error(codes.DeadlineExceeded, "no answer in time")
	}
	return err
}

// Take implements [driver.Peers].
func (p *Peers) Take(ctx context.Context, to driver.Gateway) (driver.Content, error) {
	return p.content(ctx, &to, func(ctx context.Context, c keyspacev1.PeersClient) (contents, error) {
		return c.Take(ctx, &keyspacev1.TakeRequest{})
	})
}

// Fetch implements [driver.Peers].
func (p *Peers) Fetch(ctx context.Context, to driver.Gateway, era, index uint64) (driver.Content, error) {
	return p.content(ctx, &to, func(ctx context.Context, c keyspacev1.PeersClient) (contents, error) {
		return c.Fetch(ctx, &keyspacev1.FetchRequest{Era: era, Index: index})
	})
}

type contents = grpc.ServerStreamingClient[keyspacev1.Content]

// content opens a content.
func (p *Peers) content(ctx context.Context, to *driver.Gateway,
	open func(context.Context, keyspacev1.PeersClient) (contents, error)) (driver.Content, error) {
	client, ctx, cancel, err := p.call(ctx, to)
	if err != nil {
		return driver.Content{}, err
	}
	silent := time.AfterFunc(diskWithin, cancel)
	stream, err := open(ctx, client)
	var first *keyspacev1.Content
	if err == nil {
		first, err = stream.Recv()
	}
	err = late(silent, err)
	if err == nil && first.GetLast() == nil || errors.Is(err, io.EOF) {
		err = status.Error(codes.FailedPrecondition, "it sends a content without a position")
	}
	if err != nil {
		cancel()
		return driver.Content{}, plain(to, err)
	}
	next := func() ([]byte, error) {
		silent.Reset(silentWithin)
		in, err := stream.Recv()
		if err = late(silent, err); err != nil && !errors.Is(err, io.EOF) {
			err = plain(to, err)
		}
		return in.GetData(), err
	}
	return driver.Content{
		Last: decodePosition(first.GetLast()), Data: &download{pieces{left: first.GetData(), next: next}, cancel},
	}, nil
}

// download is a content that is closed after its last piece or before.
type download struct {
	pieces
	end context.CancelFunc
}

// Close implements [io.Closer].
func (d *download) Close() error {
	d.end()
	return nil
}
