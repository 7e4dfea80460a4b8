package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/wire"
)

// lockTTL is the time to live of a lock in every system, without renewal.
const lockTTL = 30 * time.Second

// netcraqWindow is the client's limit of outstanding requests, the most that [Peak] uses.
const netcraqWindow = 1024

// netcraq is a chain of nodes on XDP, with their agents in this process and the product's client.
type netcraq struct {
	*network
	client *client.Client
}

// Capacity of a node in objects and in sessions.
const netcraqObjects, netcraqSessions = 200_000, 100_000

func openNetCRAQ(ctx context.Context, n *network, o *Options) (Store, error) {
	s := &netcraq{network: n}
	cluster := n.lab.Cluster()
	if err := s.startNodes(ctx, cluster); err != nil {
		return nil, err
	}
	var err error
	if s.client, err = client.New(client.Options{Cluster: cluster, Window: netcraqWindow}); err != nil {
		return nil, err
	}
	n.onClose(s.client.Close)
	n.detail(
		"netcraq: a chain of %d nodes on XDP with agents, room for %d objects of up to %d bytes; head next to the client",
		n.hosts(), netcraqObjects, wire.MaxValueBytes)
	n.detail("reads and writes: linearizable; the Go client of this repository, which asks the nearest node; one "+
		"for all clients, with at most %d requests under way, and those of one moment together in datagrams, up to %d "+
		"of the shortest in each",
		netcraqWindow, wire.SlotsOf(wire.MinSlotBytes))
	n.detail("lock: client.TryLock and Unlock: a read and a compare-and-swap, then a write; time to live %v, fencing token", lockTTL)
	return s, nil
}

// startNodes opens the planes and starts the agents, and waits until these have configured the planes.
func (s *netcraq) startNodes(ctx context.Context, cluster *topology.Cluster) error {
	running, stop := context.WithCancel(context.Background())
	var serving errgroup.Group
	s.onClose(func() error {
		stop()
		return serving.Wait()
	})
	var agents []*agent.Agent
	for i := range s.hosts() {
		_, host := s.host(i)
		node, _ := cluster.Node(host)
		var plane dataplane.Plane
		var a *agent.Agent
		err := s.lab.Do(host, func() error {
			subnet := []netip.Prefix{s.lab.Plan.Subnet}
			opened, err := xdp.Open(xdp.Options{Node: node.Addr, Ports: s.lab.Ports(host), Transit: subnet, Chain: chain.Options{
				Shards: cluster.Shards, CellBytes: wire.MaxValueBytes, MaxObjects: netcraqObjects, MaxSessions: netcraqSessions}})
			if err != nil {
				return err
			}
			plane = opened
			a, err = agent.New(agent.Options{
				Name: host, Cluster: cluster, Plane: plane, API: node.APIAddr(), Log: slog.New(slog.DiscardHandler),
				DialOptions: []grpc.DialOption{grpc.WithContextDialer(thread.DialIn(s.lab.NamespaceFile(host)))},
			})
			if err != nil {
				return errors.Join(err, plane.Close())
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("node %s: %w", host, err)
		}
		agents = append(agents, a)
		serving.Go(func() error { return errors.Join(a.Serve(running), plane.Close()) })
	}
	for _, a := range agents {
		if err := a.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *netcraq) Get(ctx context.Context, key string) ([]byte, error) {
	r, err := s.client.Get(ctx, key)
	return r.Value, absent(err)
}

// absent converts the client's error for a missing key to ErrNotFound.
func absent(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

func (s *netcraq) Put(ctx context.Context, key string, value []byte) error {
	_, err := s.client.Put(ctx, key, value)
	return err
}

func (s *netcraq) CompareAndSwap(ctx context.Context, key string, version Version,
	value []byte) (Version, bool, error) {
	r, err := s.client.CAS(ctx, key, uint64(version), value)
	var failed *client.CASFailedError
	if errors.As(err, &failed) {
		return Version(failed.Version), false, nil
	}
	return Version(r.Version), err == nil, err
}

// netcraqLock adapts the client's lock to [Lock].
type netcraqLock struct{ *client.Lock }

func (s *netcraq) Lock(ctx context.Context, name string) (Lock, error) {
	l, err := s.client.TryLock(ctx, name, client.LockOptions{TTL: lockTTL})
	if errors.Is(err, client.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return netcraqLock{l}, nil
}

func (s *netcraq) GetMany(ctx context.Context, keys []string, got func(int, []byte, error)) {
	for i, r := range s.client.GetMany(ctx, keys) {
		got(i, r.Value, absent(r.Err))
	}
}

func (s *netcraq) PutMany(ctx context.Context, keys []string, value []byte, done func(int, error)) {
	ops := make([]client.Op, len(keys))
	for i, key := range keys {
		ops[i] = client.PutOp(key, value)
	}
	for i, r := range s.client.Do(ctx, ops) {
		done(i, r.Err)
	}
}
