package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/build"
	"github.com/netcraq/netcraq/internal/platform/metrics"
	"github.com/netcraq/netcraq/wire"
)

const (
	// maxMessageBytes holds the configurations of all shards, even if each is different.
	maxMessageBytes = 64 << 20
	// silentAfter is how long a connection may be idle before the other side is asked whether it is still there.
	silentAfter = 10 * time.Second
	// stopWithin is how long calls under way may take when the agent stops.
	stopWithin = time.Second
)

// Dial returns a client of the agent at a TCP address. Nothing is sent before the first call.
func Dial(addr string, options ...grpc.DialOption) (agentv1.AgentClient, *grpc.ClientConn, error) {
	options = append([]grpc.DialOption{grpc.WithCredentialsBundle(insecure.NewBundle()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes))}, options...)
	conn, err := grpc.NewClient("passthrough:///"+addr, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("agent %s: %w", addr, err)
	}
	return agentv1.NewAgentClient(conn), conn, nil
}

func (a *Agent) serveAPI(ctx context.Context) error {
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: silentAfter, Timeout: silenceWithin}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: silentAfter / 2, PermitWithoutStream: true}),
	}, a.options.ServerOptions...)...)
	agentv1.RegisterAgentServer(server, &service{agent: a, plane: a.options.Plane})
	if a.membership != nil {
		controllerv1.RegisterControllerServer(server, &a.membership.relay)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		force := time.AfterFunc(stopWithin, server.Stop)
		defer force.Stop()
		server.GracefulStop()
	}()
	if err := server.Serve(a.listener); err != nil {
		return fmt.Errorf("agent API: %w", err)
	}
	<-stopped
	return nil
}

// service serves the API. It checks each request completely before anything changes.
type service struct {
	agentv1.UnimplementedAgentServer
	agent *Agent
	plane dataplane.Plane
}

func (s *service) Info(context.Context, *agentv1.InfoRequest) (*agentv1.InfoResponse, error) {
	info := s.plane.Info()
	return &agentv1.InfoResponse{
		Membership: s.agent.membership.info(), WaitingFor: s.agent.formation.names(),
		Name: s.agent.options.Name, Addr: info.Addr.String(), Plane: info.Plane, Mode: info.Mode, Why: info.Why,
		Clones: info.Clones, Shards: uint32(info.Options.Shards), CellBytes: uint32(info.Options.CellBytes),
		MaxObjects: uint64(info.Options.MaxObjects), MaxSessions: uint64(info.Options.MaxSessions),
		PortTrouble: info.PortTrouble, Version: build.Name(),
	}, nil
}

func (s *service) Configure(_ context.Context, in *agentv1.ConfigureRequest) (*agentv1.ConfigureResponse, error) {
	if err := s.free(); err != nil {
		return nil, err
	}
	info := s.plane.Info()
	configs := make(map[uint16]chain.ShardConfig)
	for _, sent := range in.GetConfigs() {
		config, err := configOf(info.Addr, sent)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		if err := checkShards(info.Options.Shards, sent.GetShards()); err != nil {
			return nil, err
		}
		for _, shard := range sent.GetShards() {
			if _, twice := configs[uint16(shard)]; twice {
				return nil, status.Errorf(codes.InvalidArgument, "shard %d is configured twice", shard)
			}
			configs[uint16(shard)] = config
		}
	}
	if err := s.agent.configure(configs); err != nil {
		return nil, statusOf(err)
	}
	return &agentv1.ConfigureResponse{}, nil
}

// free refuses to configure a node that has another master.
func (s *service) free() error {
	if m := s.agent.membership; m != nil {
		return status.Errorf(codes.FailedPrecondition, "this node belongs to cluster %s: its controllers configure it", m.join.Identity.Cluster)
	}
	if names := s.agent.formation.names(); names != nil {
		return status.Errorf(codes.FailedPrecondition, "this node has no state and waits for %s", strings.Join(names, ", "))
	}
	return nil
}

func (s *service) Grant(_ context.Context, in *agentv1.GrantRequest) (*agentv1.GrantResponse, error) {
	if err := s.free(); err != nil {
		return nil, err
	}
	if err := checkShards(s.plane.Info().Options.Shards, in.GetShards()); err != nil {
		return nil, err
	}
	d := dataplane.Forever
	switch ms := in.GetDurationMs(); {
	case in.GetForever() && ms != 0:
		return nil, status.Error(codes.InvalidArgument, "a lease lasts forever or for a duration, not both")
	case ms > uint64(math.MaxInt64/time.Millisecond):
		return nil, status.Errorf(codes.InvalidArgument, "a lease of %d ms is too long: use forever", ms)
	case !in.GetForever():
		d = time.Duration(ms) * time.Millisecond
	}
	for _, shard := range in.GetShards() {
		if err := s.plane.Grant(uint16(shard), d); err != nil {
			return nil, statusOf(err)
		}
	}
	return &agentv1.GrantResponse{}, nil
}

func (s *service) Shards(context.Context, *agentv1.ShardsRequest) (*agentv1.ShardsResponse, error) {
	var groups configGroups
	for shard := range s.plane.Info().Options.Shards {
		config, err := s.plane.Config(uint16(shard))
		if err != nil {
			return nil, statusOf(err)
		}
		if config.State != chain.None {
			groups.add(uint16(shard), config)
		}
	}
	return &agentv1.ShardsResponse{Configs: groups.configs}, nil
}

func (s *service) Counters(context.Context, *agentv1.CountersRequest) (*agentv1.CountersResponse, error) {
	counters, err := s.plane.Counters()
	if err != nil {
		return nil, statusOf(err)
	}
	return &agentv1.CountersResponse{Counters: countersOf(counters)}, nil
}

func (s *service) Usage(context.Context, *agentv1.UsageRequest) (*agentv1.UsageResponse, error) {
	usage, err := s.plane.Usage()
	if err != nil {
		return nil, statusOf(err)
	}
	memory, err := s.plane.Memory()
	if err != nil {
		return nil, statusOf(err)
	}
	return &agentv1.UsageResponse{
		Objects: uint64(usage.Objects), Sessions: uint64(usage.Sessions), MemoryBytes: memory,
	}, nil
}

func (s *service) Metrics(context.Context, *agentv1.MetricsRequest) (*agentv1.MetricsResponse, error) {
	page, err := metrics.Page(s.agent.Metrics())
	if err != nil {
		return nil, statusOf(err)
	}
	return &agentv1.MetricsResponse{Page: page}, nil
}

func (s *service) Object(_ context.Context, in *agentv1.ObjectRequest) (*agentv1.ObjectResponse, error) {
	key, err := wire.HashKey(in.GetKey())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	object, found, err := s.plane.Object(key)
	if err != nil {
		return nil, statusOf(err)
	}
	return &agentv1.ObjectResponse{
		Found: found, Version: object.Version, Committed: object.Committed, Tombstone: object.Tombstone,
		Value: object.Value, Reads: object.Reads, Writes: object.Writes,
	}, nil
}

func checkShards(shards int, numbers []uint32) error {
	if len(numbers) == 0 {
		return status.Error(codes.InvalidArgument, "no shard is named")
	}
	for _, number := range numbers {
		if uint64(number) >= uint64(shards) {
			return status.Errorf(codes.InvalidArgument, "shard %d: there are %d", number, shards)
		}
	}
	return nil
}

// statusOf distinguishes requests that the node's state forbids from errors of the node.
func statusOf(err error) error {
	var refused reconfig.Refusal
	var wrong reconfig.Invalid
	switch {
	case errors.As(err, &refused):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, &wrong):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}
