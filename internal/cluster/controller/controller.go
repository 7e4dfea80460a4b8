package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/platform/build"
	pages "github.com/netcraq/netcraq/internal/platform/metrics"
)

// Options say how one controller runs.
type Options struct {
	Address string          // where it serves, and its name: host and port
	Store   store.Options   // where the state is kept; its Log is set here
	Form    store.Formation // settings to form the cluster with; zero means any
	Leader  reconfig.Options
	Balance reconfig.BalanceOptions
	Metrics string // TCP address for Prometheus; empty: none
	// Machines are those of the Kubernetes cluster whose cordoned machines' nodes are drained; nil: none.
	Machines Machines
	Up       func() // called once when the cluster is formed and this controller takes part; nil: nothing is
	Log      *slog.Logger

	Identity *security.Identity // nil: no encryption
}

// maxMessageBytes bounds a message. An inventory fits even if every shard has another configuration.
const maxMessageBytes = 64 << 20

// Controller is one of a cluster's controllers.
type Controller struct {
	controllerv1.UnimplementedControllerServer

	options  Options
	log      *slog.Logger
	began    time.Time
	listener net.Listener
	scrapes  net.Listener // nil without metrics
	store    *store.Store
	metrics  *metrics
	view     *view
	nodes    nodes
	hearts   *hearts
	peers    *peers
	term     atomic.Pointer[leading] // nil while it does not lead
	slow     atomic.Pointer[slowness]
	jumped   atomic.Int64             // when the wall clock was set last; 0: never
	cordons  atomic.Pointer[[]string] // notes about cordoned machines

	loading sync.Mutex
	loads   *reconfig.Loads
}

// New listens at the addresses and opens the store. Close or Serve releases both.
func New(o Options) (*Controller, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Store.Log = o.Log
	c := &Controller{options: o, log: o.Log, began: time.Now(), loads: reconfig.NewLoads(),
		nodes: nodes{byID: map[reconfig.NodeID]*membershipStream{}}}
	c.view = newView(o.Address, c.now, c.nodes.refuse, c.settingsChanged)
	c.metrics = newMetrics(c.term.Load, o.Identity.Refusals())
	var err error
	if c.listener, err = net.Listen("tcp", o.Address); err != nil {
		return nil, explainListen("--listen", o.Address, err)
	}
	if o.Metrics != "" {
		if c.scrapes, err = net.Listen("tcp", o.Metrics); err != nil {
			return nil, errors.Join(explainListen("--metrics", o.Metrics, err), c.Close())
		}
	}
	if c.store, err = store.Open(o.Store); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends a controller that does not serve.
func (c *Controller) Close() error {
	err := c.listener.Close()
	if c.scrapes != nil {
		err = errors.Join(err, c.scrapes.Close())
	}
	if c.store != nil {
		err = errors.Join(err, c.store.Close())
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// now returns the monotonic time since this controller began.
func (c *Controller) now() time.Duration { return time.Since(c.began) }

func (c *Controller) leaderOptions() reconfig.Options {
	o := c.options.Leader
	if o.FormWith == 0 {
		o.FormWith = c.view.formed().FormWith
	}
	return o
}

// Serve does a controller's work until ctx ends, which is no error. It may be called once, and closes the controller.
func (c *Controller) Serve(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	group, ctx := errgroup.WithContext(ctx)
	server := c.newServer()
	group.Go(func() error { return serve(ctx, server, c.listener) })
	if c.scrapes != nil {
		group.Go(func() error { return pages.Serve(ctx, c.scrapes, c.metrics.registry) })
	}
	group.Go(func() error { return c.awaitRemoval(ctx) })
	group.Go(func() error { return c.store.Failed(ctx) })
	group.Go(func() error {
		if err := c.form(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if c.options.Up != nil {
			c.options.Up()
		}
		defer c.peers.close()
		group.Go(func() error { return c.hearts.serve(ctx) })
		group.Go(func() error { return c.stand(ctx) })
		group.Go(func() error { return c.look(ctx) })
		group.Go(func() error { c.store.FollowKeyspaces(ctx, c.view.keyspacesChanged); return nil })
		return c.store.Follow(ctx, c.view)
	})
	return group.Wait()
}

// form loads the cluster's formation, or forms the cluster.
func (c *Controller) form(ctx context.Context) error {
	c.log.Info("controller is up; waiting for etcd", "address", c.options.Address)
	formed, err := c.store.Form(ctx, c.options.Form, c.defaults())
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case !formed.Controllers.Knows(c.options.Address):
		return fmt.Errorf("this controller, %s, is not one of the cluster's, %s: start it with the address that it has there, "+
			"or add it with `netcraq controllers add`", c.options.Address, strings.Join(formed.Controllers.Addresses(), ", "))
	}
	c.log.Info("cluster", "id", formed.Settings.Cluster, "shards", formed.Settings.Shards, "replicas", formed.Settings.Replicas,
		"controllers", strings.Join(formed.Controllers.Addresses(), ","))
	c.peers = newPeers(c.options.Address, c.dialOptions())
	if err := c.peers.follow(formed.Controllers.Connected()); err != nil {
		return err
	}
	c.hearts, err = c.newHearts(&formed)
	return err
}

func (c *Controller) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{c.options.Identity.DialOption()}
}

func (c *Controller) newServer() *grpc.Server {
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.StaticStreamWindowSize(message.WindowBytes), grpc.StaticConnWindowSize(message.WindowBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: silentAfter, Timeout: silentAfter}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: silentAfter / 2, PermitWithoutStream: true}),
	}, c.options.Identity.ServerOptions(c.options.Log)...)...)
	controllerv1.RegisterControllerServer(server, c)
	return server
}

// serve answers calls until ctx ends. Nodes and clients stay connected for ever, so there is no waiting for them.
func serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// Fence tells the leader how long this controller's grants to some nodes may still last.
func (c *Controller) Fence(ctx context.Context, in *controllerv1.FenceRequest) (*controllerv1.FenceResponse, error) {
	nodes := make([]reconfig.NodeID, len(in.GetNodes()))
	for i, id := range in.GetNodes() {
		nodes[i] = reconfig.NodeID(id)
	}
	left, err := c.view.leaseLeft(ctx, in.GetChange(), nodes)
	if err != nil {
		return nil, err
	}
	return &controllerv1.FenceResponse{
		LeftUs:  uint32((left + time.Microsecond - 1).Microseconds()), // rounded up
		Version: build.Name(),
	}, nil
}

// explainListen tells the user how to deal with an address that cannot be used.
func explainListen(flag, addr string, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("TCP %s is taken, probably by another controller: stop it, or choose another address with %s", addr, flag)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not on an address of this machine: choose another with %s", addr, flag)
	}
	return fmt.Errorf("%s %q: %w", flag, addr, err)
}
