package memory

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// silentTTLs is for how many lifetimes of the lock the chain may be silent before clients that require a leader get an
// error. etcd waits for three election timeouts.
const silentTTLs = 3

// heard notes that the chain has answered with the state of the log.
func (g *Gateway) heard() { g.contact.Store(int64(time.Since(g.began))) }

// ledFor is how long this gateway has a leader from now on, if it hears nothing more. It has one while it is active
// itself, or while it can read what another one appends. A gateway that has just begun counts as if it could.
func (g *Gateway) ledFor() time.Duration {
	if l := g.where().lead; l != nil && l.isActive() {
		g.heard()
	}
	return silentTTLs*g.o.LockTTL - (time.Since(g.began) - time.Duration(g.contact.Load()))
}

// whileLed handles a stream that requires a leader. As with etcd the stream ends when there has been none for long.
func (g *Gateway) whileLed(down grpc.ServerStream, handle func(grpc.ServerStream) error) error {
	left := g.ledFor()
	if left <= 0 {
		return rpctypes.ErrGRPCNoLeader
	}
	ctx, cancel := context.WithCancel(down.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- handle(&ledStream{down, ctx}) }()
	check := time.NewTimer(left)
	defer check.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-check.C:
			if left = g.ledFor(); left <= 0 {
				return rpctypes.ErrGRPCNoLeader
			}
			check.Reset(left)
		}
	}
}

// ledStream is a stream whose context ends when the gateway has no leader.
type ledStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *ledStream) Context() context.Context { return s.ctx }
