package agent

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// mapRelay hands on the map of the cluster, so that clients can learn it from any node: also while no controller is
// there.
type mapRelay struct {
	controllerv1.UnimplementedControllerServer

	over chan struct{} // closed when the agent stops

	mu      sync.Mutex
	newest  *controllerv1.MapResponse // nil: none was received
	changed chan struct{}             // closed, and replaced, when there is a newer one
}

// run receives from one controller at a time.
func (r *mapRelay) run(ctx context.Context, m *membership) {
	pauses := retry.Between(redialMin, redialMax)
	for ctx.Err() == nil {
		for _, l := range m.allLinks() {
			received, err := r.receive(ctx, l.address, m.join.DialOptions)
			if ctx.Err() != nil {
				return
			}
			if received {
				pauses.Reset()
			}
			m.log.Debug("the map comes from this controller no more", "controller", l.address, "error", err)
		}
		pauses.Wait(ctx)
	}
}

// receive receives the maps of one controller until its stream ends.
func (r *mapRelay) receive(ctx context.Context, address string, options []grpc.DialOption) (received bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, conn, err := dialController(address, options)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	r.mu.Lock()
	known := r.newest.GetVersion()
	r.mu.Unlock()
	stream, err := client.Map(ctx, &controllerv1.MapRequest{Known: known})
	if err != nil {
		return false, err
	}
	for {
		next, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		r.mu.Lock()
		if next.GetVersion() > r.newest.GetVersion() {
			r.newest = next
			close(r.changed)
			r.changed = make(chan struct{})
		}
		r.mu.Unlock()
	}
}

// Map implements the controllers' call of that name.
func (r *mapRelay) Map(in *controllerv1.MapRequest, stream grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	for known := in.GetKnown(); ; {
		r.mu.Lock()
		newest, changed := r.newest, r.changed
		r.mu.Unlock()
		if newest.GetVersion() > known {
			if err := stream.Send(newest); err != nil {
				return err
			}
			known = newest.GetVersion()
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-r.over:
			return status.Error(codes.Unavailable, "the agent stops")
		case <-changed:
		}
	}
}
