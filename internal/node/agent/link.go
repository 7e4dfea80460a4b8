package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/build"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

const (
	// redialMin is the first pause before a controller that cannot be had is called again; it doubles up to redialMax.
	redialMin = 20 * time.Millisecond
	redialMax = 500 * time.Millisecond
	// refusedPause is the pause after a controller refused the node: only people can change that.
	refusedPause = 5 * time.Second
	// welcomeWithin is how long a controller may take to welcome the node.
	welcomeWithin = 3 * time.Second
	// silenceWithin is how long sent bytes may stay unconfirmed before the connection counts as broken.
	silenceWithin = 2 * time.Second
)

// dialController returns a client of a controller. Nothing is sent before the first call.
func dialController(address string, options []grpc.DialOption) (controllerv1.ControllerClient, *grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithCredentialsBundle(insecure.NewBundle()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		grpc.WithStaticStreamWindowSize(message.WindowBytes), grpc.WithStaticConnWindowSize(message.WindowBytes),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silentAfter, Timeout: silenceWithin}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: redialMin, Multiplier: 2, MaxDelay: redialMax}, MinConnectTimeout: silenceWithin,
		}),
	}, options...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("controller %s: %w", address, err)
	}
	return controllerv1.NewControllerClient(conn), conn, nil
}

// refusedError is a controller's refusal of the node, for people.
type refusedError struct{ reason string }

func (e refusedError) Error() string { return e.reason }

// link is the standing connection to one controller.
type link struct {
	membership *membership
	address    string
	end        context.CancelFunc
	wake       chan struct{} // there is something to send

	mu        sync.Mutex
	name      string             // by which the controller counts; empty: not connected
	heartbeat *controllerv1.Beat // the newest, if it was not sent
	queue     []*controllerv1.NodeMessage
	trouble   string
	granter   int                 // the controller's place among all, by which the plane knows it; -1: not known
	beats     reconfig.Beats      // which heartbeats it needs
	reported  *reconfig.Heartbeat // content of its last heartbeat
}

// run keeps a membership stream to the controller until ctx ends.
func (l *link) run(ctx context.Context) {
	pauses := retry.Between(redialMin, redialMax)
	for ctx.Err() == nil {
		welcomed, err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if welcomed {
			pauses.Reset()
		}
		var reason refusedError
		refused := errors.As(err, &reason)
		switch news := l.lost(err); {
		case news && refused:
			l.membership.log.Error("a controller refuses this node; it takes no part in the cluster",
				"controller", l.address, "reason", err)
		case news:
			l.membership.log.Warn("cannot connect to a controller; trying again",
				"controller", l.address, "error", callerror.Text(err))
		}
		if refused {
			retry.Sleep(ctx, refusedPause)
		} else {
			pauses.Wait(ctx)
		}
	}
}

// lost notes why the node has no membership stream to the controller, and reports whether the reason is new.
func (l *link) lost(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	trouble := callerror.Text(err)
	news := l.trouble != trouble
	l.name, l.heartbeat, l.queue, l.trouble = "", nil, nil, trouble
	l.granter, l.beats, l.reported = -1, reconfig.Beats{}, nil
	return news
}

// connect opens a membership stream and serves it until it ends.
func (l *link) connect(ctx context.Context) (welcomed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, conn, err := dialController(l.address, l.membership.join.DialOptions)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stream, welcome, err := greet(ctx, client, l.membership.registration())
	if err != nil {
		return false, err
	}
	if err := l.welcome(welcome); err != nil {
		return false, err
	}
	l.membership.log.Info("connected to a controller", "controller", welcome.GetController(), "cluster", welcome.GetCluster())
	var sender sync.WaitGroup
	defer sender.Wait()
	defer cancel()
	sender.Go(func() {
		defer cancel()
		l.sendAll(ctx, stream)
	})
	l.membership.tellInventory(l)
	return true, l.receive(stream)
}

type membershipStream = grpc.BidiStreamingClient[controllerv1.NodeMessage, controllerv1.ControllerMessage]

// greet opens a membership stream with a registration and returns the welcome.
func greet(ctx context.Context, client controllerv1.ControllerClient,
	registration *controllerv1.Hello) (membershipStream, *controllerv1.Welcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(welcomeWithin, func() { cancel(errors.New("no welcome in time")) })
	defer late.Stop()
	stream, err := client.Attend(ctx)
	if err == nil {
		err = stream.Send(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Hello{Hello: registration}})
	}
	var first *controllerv1.ControllerMessage
	if stream != nil {
		if m, failed := stream.Recv(); failed != nil {
			err = failed
		} else {
			first, err = m, nil
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil:
		cancel(err)
		return nil, nil, err
	case first.GetWelcome() != nil:
		return stream, first.GetWelcome(), nil
	}
	cancel(nil)
	if first.GetRefusal() != "" {
		return nil, nil, refusedError{first.GetRefusal()}
	}
	return nil, nil, errors.New("the controller did not begin with a welcome: is it of another version?")
}

// registration describes the node to a controller.
func (m *membership) registration() *controllerv1.Hello {
	m.applying.Lock()
	id := m.identity
	m.applying.Unlock()
	info := m.plane.Info()
	registration := m.join.registration(id, m.name, info.Addr.String(), m.api())
	registration.Shards, registration.CellBytes = uint32(info.Options.Shards), uint32(info.Options.CellBytes)
	registration.MaxObjects, registration.MaxSessions = uint64(info.Options.MaxObjects), uint64(info.Options.MaxSessions)
	return registration
}

// registration describes a node whose plane is not open yet.
func (j *Join) registration(id Identity, name, addr, api string) *controllerv1.Hello {
	return &controllerv1.Hello{
		Name: name, Addr: addr, Api: api, Labels: j.Labels, Capacity: j.Capacity, Incarnation: id.Incarnation, Cluster: id.Cluster,
		Version: build.Name(),
	}
}

// welcome checks that the controller is one of the node's cluster, and notes its name.
func (l *link) welcome(w *controllerv1.Welcome) error {
	m := l.membership
	info := m.plane.Info()
	switch cluster := m.join.Identity.Cluster; {
	case w.GetCluster() != cluster:
		return refusedError{fmt.Sprintf("the controller is one of cluster %s, and this node belongs to %s", w.GetCluster(), cluster)}
	case int(w.GetShards()) != info.Options.Shards:
		return refusedError{fmt.Sprintf("the cluster has %d shards, and this node was made for %d", w.GetShards(), info.Options.Shards)}
	case w.GetController() == "":
		return errors.New("the controller does not say which one it is: is it of another version?")
	}
	l.mu.Lock()
	l.name, l.trouble = w.GetController(), ""
	l.mu.Unlock()
	m.welcomed(w)
	m.tellHeart(l, w)
	poke(m.news) // the first heartbeat
	return nil
}

// welcomedBy is the name of the controller while the membership stream is open; empty otherwise.
func (l *link) welcomedBy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name
}

// send queues a message that must not be left out.
func (l *link) send(m *controllerv1.NodeMessage) {
	l.mu.Lock()
	if l.name != "" {
		l.queue = append(l.queue, m)
	}
	l.mu.Unlock()
	poke(l.wake)
}

// takesHeartbeats reports whether the plane takes the heartbeats of the controller, at a time of the plane's clock. A
// controller that is not connected counts as if it did: the agent cannot help.
func (l *link) takesHeartbeats(now uint64, every time.Duration, granted *chain.Granted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name == "" {
		return true
	}
	end := uint64(0)
	if l.granter >= 0 && l.granter < len(granted.Ends) {
		end = granted.Ends[l.granter]
	}
	return l.beats.See(now, every, end)
}

// needsHeartbeat reports whether the controller is to get a heartbeat with this status now.
func (l *link) needsHeartbeat(now uint64, every time.Duration, status *reconfig.Heartbeat, spared bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name == "" {
		return false
	}
	news := status != l.reported
	l.reported = status
	return l.beats.Due(now, every, news, spared)
}

// sendHeartbeat replaces a heartbeat that waits: only the newest counts.
func (l *link) sendHeartbeat(b *controllerv1.Beat) {
	l.mu.Lock()
	if l.name != "" {
		l.heartbeat = b
	}
	l.mu.Unlock()
	poke(l.wake)
}

// poke wakes the receiver of a channel with room for one, unless it is already woken.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// sendAll sends the queued messages. A controller that does not receive does not hold up the others.
func (l *link) sendAll(ctx context.Context, stream membershipStream) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		queue, heartbeat := l.queue, l.heartbeat
		l.queue, l.heartbeat = nil, nil
		l.mu.Unlock()
		if heartbeat != nil {
			queue = append(queue, &controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Beat{Beat: heartbeat}})
		}
		for _, m := range queue {
			if stream.Send(m) != nil {
				return // Recv has the reason
			}
		}
	}
}

// receive handles the controller's messages until the stream ends. It never waits for the plane.
func (l *link) receive(stream membershipStream) error {
	name, m := l.welcomedBy(), l.membership
	for {
		in, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the controller ended the connection")
		case err != nil:
			return err
		}
		switch kind := in.GetKind().(type) {
		case *controllerv1.ControllerMessage_Grant:
			m.grant(name, message.Grant(kind.Grant))
		case *controllerv1.ControllerMessage_Order:
			if err := m.receiveOrder(kind.Order); err != nil {
				return fmt.Errorf("an order that cannot be read: %w", err)
			}
		case *controllerv1.ControllerMessage_WantInventory:
			m.tellInventory(l)
		case *controllerv1.ControllerMessage_Welcome:
			m.welcomed(kind.Welcome)
			m.tellHeart(l, kind.Welcome)
		case *controllerv1.ControllerMessage_Release:
			m.released(kind.Release.GetTerm())
		case *controllerv1.ControllerMessage_Probe:
			m.probe(kind.Probe)
		case *controllerv1.ControllerMessage_Refusal:
			return refusedError{kind.Refusal}
		}
	}
}
