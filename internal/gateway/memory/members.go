package memory

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Keys of a relay's metadata. The gateway that opens it says who it is; the active one answers with its number and
// term.
const (
	memberKey = "netcraq-memory-member-bin"
	leaderKey = "netcraq-memory-leader"
	termKey   = "netcraq-memory-term"
)

// introduced adds this gateway's name and address to the metadata of a relay.
func (g *Gateway) introduced(ctx context.Context) context.Context {
	encoded, err := proto.Marshal(g.self)
	if err != nil {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, memberKey, string(encoded))
}

// joins notes the gateway that has opened a relay, until leaves is called.
func (g *Gateway) joins(ctx context.Context) (leaves func()) {
	md, _ := metadata.FromIncomingContext(ctx)
	said := md.Get(memberKey)
	other := new(pb.Member)
	if len(said) == 0 || proto.Unmarshal([]byte(said[0]), other) != nil || other.ID == 0 {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.others[other] = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.others, other)
	}
}

// members are this gateway and those that relay to it, which are all if this one is active.
func (g *Gateway) members() []*pb.Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []*pb.Member{g.self}
	for other := range g.others {
		all = append(all, other)
	}
	slices.SortFunc(all, func(a, b *pb.Member) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b *pb.Member) bool { return a.ID == b.ID })
}

// greeting is the active gateway's answer to a relay.
func (g *Gateway) greeting() metadata.MD {
	g.mu.Lock()
	defer g.mu.Unlock()
	return metadata.Pairs(leaderKey, strconv.FormatUint(g.self.ID, 10), termKey, strconv.FormatUint(g.term, 10))
}

// greeted notes the active gateway's number and term.
func (g *Gateway) greeted(md metadata.MD) {
	g.mu.Lock()
	defer g.mu.Unlock()
	number := func(key string) (n uint64) {
		if said := md.Get(key); len(said) > 0 {
			n, _ = strconv.ParseUint(said[0], 10, 64)
		}
		return n
	}
	g.leader, g.term = number(leaderKey), max(g.term, number(termKey))
}

// sawTerm notes the term of an entry of the log, or of an answer. Clients never see a lower one from this gateway
// again.
func (g *Gateway) sawTerm(term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.term = max(g.term, term)
}

// clusterServer lists the gateways.
type clusterServer struct {
	pb.UnimplementedClusterServer
	g *Gateway
}

// MemberList implements etcd's API. The active gateway knows the others, which relay to it. Without an active one a
// client that does not ask for a linearizable answer gets this gateway.
func (s *clusterServer) MemberList(ctx context.Context, q *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if err := s.g.admit(ctx, s.g.current(), someUser); err != nil {
		return nil, err
	}
	if s.g.disk != nil {
		return s.g.membersOnDisk(ctx, q)
	}
	to := s.g.where()
	if !q.Linearizable && to.lead == nil && to.conn == nil {
		return complete(s.g, &pb.MemberListResponse{Header: new(pb.ResponseHeader), Members: s.g.members()}, nil)
	}
	a, err := route(ctx, s.g, func(context.Context, *leader) (*pb.MemberListResponse, error) {
		return &pb.MemberListResponse{Header: new(pb.ResponseHeader), Members: s.g.members()}, nil
	}, func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (*pb.MemberListResponse, error) {
		return pb.NewClusterClient(c).MemberList(ctx, q, o...)
	})
	return complete(s.g, a, err)
}
