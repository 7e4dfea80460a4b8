package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

const active = agentv1.State_STATE_ACTIVE

func TestConfigureByAPI(t *testing.T) {
	plane := listen(t)
	api, ctx := start(t, Options{Name: "a", Plane: plane}), context.Background()
	self := plane.Addr().String()
	configs := []*agentv1.ShardConfig{
		{Shards: []uint32{0, 2}, Epoch: 3, State: active, Members: []string{self}},
		{Shards: []uint32{1}, Epoch: 4, State: active, Learner: true, Members: []string{"192.0.2.1:1", self, "192.0.2.2:1"}},
		{Shards: []uint32{3}, Epoch: 4},
	}
	if _, err := api.Configure(ctx, &agentv1.ConfigureRequest{Configs: configs}); err != nil {
		t.Fatal(err)
	}
	got, err := api.Shards(ctx, &agentv1.ShardsRequest{})
	if err != nil || len(got.Configs) != 2 {
		t.Fatalf("shards are %v, %v", got, err)
	}
	for i, c := range got.Configs {
		if want := configs[i]; c.String() != want.String() {
			t.Errorf("shards are %v, want %v", c, want)
		}
	}
	if c, err := plane.Config(3); err != nil || c.State != chain.None || c.Epoch != 4 {
		t.Errorf("shard 3 is %+v, %v", c, err)
	}
}

func TestConfigureRefused(t *testing.T) {
	plane := listen(t)
	api, ctx := start(t, Options{Name: "a", Plane: plane}), context.Background()
	self := plane.Addr().String()
	before := []*agentv1.ShardConfig{{Shards: []uint32{0}, Epoch: 5, State: active, Members: []string{self}}}
	if _, err := api.Configure(ctx, &agentv1.ConfigureRequest{Configs: before}); err != nil {
		t.Fatal(err)
	}
	many := slices.Repeat([]string{self}, wire.MaxChain+1)
	one := []uint32{1}
	for _, c := range []struct {
		name   string
		config *agentv1.ShardConfig
		code   codes.Code
		want   string
	}{
		{"no epoch", &agentv1.ShardConfig{Shards: one, State: active, Members: many[:1]}, codes.InvalidArgument, "first epoch is 1"},
		{"too many", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active, Members: many}, codes.InvalidArgument, "1 to 8 members, not 9"},
		{"nobody", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active}, codes.InvalidArgument, "not a member"},
		{"others", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active, Members: []string{"192.0.2.1:1"}},
			codes.InvalidArgument, "not a member"},
		{"twice", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active, Members: many[:2]}, codes.InvalidArgument, "twice"},
		{"no address", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active, Members: []string{"n1"}},
			codes.InvalidArgument, `"n1" is not an address`},
		{"IPv6", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active, Members: []string{self, "[::1]:1"}}, codes.InvalidArgument, "IPv4"},
		{"learner at the end", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: active, Learner: true, Members: many[:1]},
			codes.InvalidArgument, "strictly inside"},
		{"state", &agentv1.ShardConfig{Shards: one, Epoch: 1, State: 9, Members: many[:1]}, codes.InvalidArgument, "state 9"},
		{"no shard", &agentv1.ShardConfig{Epoch: 1, State: active, Members: many[:1]}, codes.InvalidArgument, "no shard"},
		{"shard", &agentv1.ShardConfig{Shards: []uint32{4}, Epoch: 1, State: active, Members: many[:1]},
			codes.InvalidArgument, "shard 4: there are 4"},
		{"large shard", &agentv1.ShardConfig{Shards: []uint32{1 << 16}, Epoch: 1, State: active, Members: many[:1]},
			codes.InvalidArgument, "shard 65536"},
		{"shard twice", &agentv1.ShardConfig{Shards: []uint32{1, 1}, Epoch: 1, State: active, Members: many[:1]},
			codes.InvalidArgument, "configured twice"},
		{"older", &agentv1.ShardConfig{Shards: []uint32{0}, Epoch: 4, State: active, Members: many[:1]},
			codes.FailedPrecondition, "epoch 4 is older than the node's 5"},
		{"other chain", &agentv1.ShardConfig{Shards: []uint32{0}, Epoch: 5, State: active,
			Members: []string{self, "192.0.2.1:1"}}, codes.FailedPrecondition, "needs a higher epoch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A good configuration before the bad one must not be applied either.
			good := &agentv1.ShardConfig{Shards: []uint32{2}, Epoch: 9, State: active, Members: []string{self}}
			_, err := api.Configure(ctx, &agentv1.ConfigureRequest{Configs: []*agentv1.ShardConfig{good, c.config}})
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %v: %q", err, c.code, c.want)
			}
			if now, err := api.Shards(ctx, &agentv1.ShardsRequest{}); err != nil || len(now.Configs) != 1 || now.Configs[0].Epoch != 5 {
				t.Errorf("now %v, %v", now, err)
			}
		})
	}
}

func TestGrantByAPI(t *testing.T) {
	plane, client := listen(t), newTail(t)
	api, ctx := start(t, Options{Name: "a", Cluster: clusterOf(plane.Addr()), Plane: plane}), context.Background()
	key := hash(t, "k")
	shard := key.Shard(shards)
	for _, c := range []struct {
		grant *agentv1.GrantRequest
		want  wire.Status
	}{
		{&agentv1.GrantRequest{Shards: []uint32{uint32(shard)}}, wire.StatusBusy},
		{&agentv1.GrantRequest{Shards: []uint32{uint32(shard)}, DurationMs: 3600_000}, wire.StatusNotFound},
		{&agentv1.GrantRequest{Shards: []uint32{0, 1, 2, 3}}, wire.StatusBusy},
		{&agentv1.GrantRequest{Shards: []uint32{0, 1, 2, 3}, Forever: true}, wire.StatusNotFound},
	} {
		if _, err := api.Grant(ctx, c.grant); err != nil {
			t.Fatal(err)
		}
		client.send(plane.Addr(), wire.Message{Op: wire.OpRead, Epoch: 1, Shard: shard, Key: key})
		if reply, ok := client.receive(patience); !ok || reply.Status() != c.want {
			t.Errorf("%v: reply %+v, want %v", c.grant, reply, c.want)
		}
	}
	for _, bad := range []*agentv1.GrantRequest{
		{},
		{Shards: []uint32{4}},
		{Shards: []uint32{0}, Forever: true, DurationMs: 1},
		{Shards: []uint32{0}, DurationMs: 1 << 63},
	} {
		if _, err := api.Grant(ctx, bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestInspectByAPI(t *testing.T) {
	plane, client := listen(t), newTail(t)
	api, ctx := start(t, Options{Name: "a", Cluster: clusterOf(plane.Addr()), Plane: plane}), context.Background()
	client.send(plane.Addr(), put(t, "k", "value", 1, 1))
	if reply, ok := client.receive(patience); !ok || reply.Status() != wire.StatusOk {
		t.Fatalf("reply %+v", reply)
	}
	info, err := api.Info(ctx, &agentv1.InfoRequest{})
	if err != nil || info.Name != "a" || info.Plane != "soft" || info.Addr != plane.Addr().String() || info.Shards != shards {
		t.Errorf("info is %v, %v", info, err)
	}
	usage, err := api.Usage(ctx, &agentv1.UsageRequest{})
	if err != nil || usage.Objects != 1 || usage.Sessions != 1 || usage.MemoryBytes == 0 {
		t.Errorf("usage is %v, %v", usage, err)
	}
	counters, err := api.Counters(ctx, &agentv1.CountersRequest{})
	if err != nil || len(counters.Counters) != 1 || counters.Counters[0].Outcome != uint32(wire.OutcomeOrdered) {
		t.Errorf("counters are %v, %v", counters, err)
	}
	got, err := api.Object(ctx, &agentv1.ObjectRequest{Key: []byte("k")})
	if err != nil || !got.Found || string(got.Value) != "value" || got.Version != 1 || got.Committed != 1 {
		t.Errorf("object is %v, %v", got, err)
	}
	if got, err = api.Object(ctx, &agentv1.ObjectRequest{Key: []byte("none")}); err != nil || got.Found {
		t.Errorf("object is %v, %v", got, err)
	}
	if _, err = api.Object(ctx, &agentv1.ObjectRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("empty key: %v", err)
	}
	client.send(plane.Addr(), wire.Message{Op: wire.OpRead, Epoch: 1, Shard: hash(t, "k").Shard(shards), Key: hash(t, "k")})
	if reply, ok := client.receive(patience); !ok || reply.Status() != wire.StatusOk {
		t.Fatalf("reply %+v", reply)
	}
	uses, err := Uses(ctx, api, []wire.Key{hash(t, "none"), hash(t, "k")})
	if err != nil || uses[0].Found || !uses[1].Found || uses[1].Reads != 1 || uses[1].Writes != 1 || uses[1].ValueBytes != 5 {
		t.Errorf("uses are %v, %v", uses, err)
	}
	if _, err := Uses(ctx, api, make([]wire.Key, MaxUses+1)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("too many keys: %v", err)
	}
	if _, err := api.Uses(ctx, &agentv1.UsesRequest{Keys: [][]byte{[]byte("k")}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a key that is not hashed: %v", err)
	}
}

func TestNewRefused(t *testing.T) {
	plane := listen(t)
	addr := plane.Addr()
	other := netip.AddrPortFrom(addr.Addr(), addr.Port()+1)
	busy := newTCP(t)
	moreShards := clusterOf(addr)
	moreShards.Shards = 8
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Name: "z", Cluster: clusterOf(addr)}, `no node "z"`},
		{Options{Name: "a", Cluster: clusterOf(other)}, "but its data plane is at"},
		{Options{Name: "a", Cluster: moreShards}, "8 shards, but the data plane was made for 4"},
		{Options{Name: "a", API: busy}, "stop it, or choose another address with --api"},
		{Options{Name: "a", API: "203.0.113.9:0"}, "not on an address of this machine"},
		{Options{Name: "a", API: "nonsense"}, "nonsense"},
	} {
		c.options.Plane, c.options.Log = plane, quiet
		if _, err := New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %q", err, c.want)
		}
	}
}
