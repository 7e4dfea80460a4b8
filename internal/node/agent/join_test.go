package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// alone is a configuration of a node that is the whole chain.
func alone(plane *soft.Plane, epoch uint32, state chain.State) reconfig.ShardOrder {
	return reconfig.ShardOrder{Config: chain.ShardConfig{Epoch: epoch, State: state, Members: []netip.AddrPort{plane.Addr()}}, Fresh: true}
}

func leaseLeft(t *testing.T, api agentv1.AgentClient) int64 {
	t.Helper()
	info, err := api.Info(t.Context(), &agentv1.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return info.GetMembership().GetLeaseLeftUs()
}

// TestLeaseIsOfTheMajority: two of three controllers have to grant, and the lease ends when they stop.
func TestLeaseIsOfTheMajority(t *testing.T) {
	offices := []*office{newOffice(t), newOffice(t), newOffice(t)}
	for _, o := range offices {
		o.majority = 2
		o.others = []string{offices[0].address, offices[1].address, offices[2].address}
	}
	const lease = 50 * time.Millisecond
	offices[0].grants.Store(int64(lease))
	// It is told of one controller, and finds the others.
	api := start(t, Options{Name: "a", Plane: listen(t), Join: joining(t, offices[0])})
	calls := []*call{offices[0].next(), offices[1].next(), offices[2].next()}
	for _, c := range calls {
		c.until("a heartbeat comes", func(*controllerv1.Beat) bool { return true })
	}
	if left := leaseLeft(t, api); left > 0 {
		t.Errorf("a lease of %d us from one of three controllers", left)
	}
	offices[2].grants.Store(int64(lease))
	eventually(t, "there is a lease", func() bool { return leaseLeft(t, api) > 0 })
	calls[1].until("a heartbeat tells of it", func(b *controllerv1.Beat) bool { return b.GetLeaseLeftUs() > 0 })
	offices[2].grants.Store(0)
	eventually(t, "the lease is over", func() bool { return leaseLeft(t, api) <= 0 })
}

// TestOrders: a node applies orders, reports its inventory in a new term, and stores the term first (C5).
func TestOrders(t *testing.T) {
	o, plane := newOffice(t), listen(t)
	o.grants.Store(int64(testLease))
	join := joining(t, o)
	var kept atomic.Pointer[Identity]
	join.Remember = func(note []byte) error {
		id, err := ParseIdentity(note)
		kept.Store(&id)
		return err
	}
	api := start(t, Options{Name: "a", Plane: plane, Join: join})
	c := o.next()
	if h := c.registration; h.GetName() != "a" || h.GetAddr() != plane.Addr().String() ||
		h.GetIncarnation() != join.Identity.Incarnation || h.GetCluster() != testCluster {
		t.Errorf("registration is %v", h)
	}
	if i := c.inventory(); i.GetTerm() != 0 || len(i.GetConfigs()) > 0 {
		t.Errorf("inventory of an empty node: %v", i)
	}
	c.order(reconfig.Order{Term: 5, Number: 1})
	if i := c.inventory(); i.GetTerm() != 5 {
		t.Errorf("inventory of a new term: %v", i)
	}
	c.done(5, 1)
	c.order(reconfig.Order{Term: 5, Number: 2, Configs: map[uint16]reconfig.ShardOrder{1: alone(plane, 3, chain.Active)}})
	c.done(5, 2)
	client := newTail(t)
	write := put(t, "key", "v", 1, 1)
	for write.Shard != 1 {
		write.Key.Lo++
		write.Shard = write.Key.Shard(shards)
	}
	write.Epoch = 3
	client.send(plane.Addr(), write)
	if m, ok := client.receive(patience); !ok || m.Status() != 0 {
		t.Errorf("a write is answered %+v, %v", m, ok)
	}
	c.order(reconfig.Order{Term: 4, Number: 9, Configs: map[uint16]reconfig.ShardOrder{1: alone(plane, 4, chain.Active)}})
	c.order(reconfig.Order{Term: 5, Number: 3, Configs: map[uint16]reconfig.ShardOrder{1: alone(plane, 2, chain.Active)}})
	c.until("an old epoch is refused", func(b *controllerv1.Beat) bool { return strings.Contains(b.GetRefused(), "epoch 2 is older") })
	if config, err := plane.Config(1); err != nil || config.Epoch != 3 {
		t.Errorf("shard 1 is %+v, %v", config, err)
	}
	if id := kept.Load(); id.Term != 5 || id.Node != 7 || id.Cluster != testCluster ||
		id.Incarnation != join.Identity.Incarnation || !id.Kept {
		t.Errorf("the node remembers %+v", id)
	}
	for _, err := range []error{
		second(api.Configure(t.Context(), &agentv1.ConfigureRequest{Configs: []*agentv1.ShardConfig{{Shards: []uint32{0}, Epoch: 1}}})),
		second(api.Grant(t.Context(), &agentv1.GrantRequest{Shards: []uint32{1}, Forever: true})),
	} {
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), testCluster) {
			t.Errorf("another master: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestControllerComesBack: the node calls until it is welcomed, and is the same one again.
func TestControllerComesBack(t *testing.T) {
	o := newOffice(t)
	start(t, Options{Name: "a", Plane: listen(t), Join: joining(t, o)})
	before := o.next()
	o.server.Stop()
	<-before.ended
	o.open(o.address)
	after := o.next()
	after.inventory()
	if before.registration.String() != after.registration.String() {
		t.Errorf("registration was %v, is %v", before.registration, after.registration)
	}
}

// TestLostControllers: when all controllers that a node knows are gone, it calls those again that it was started with.
func TestLostControllers(t *testing.T) {
	first, other := newOffice(t), newOffice(t)
	first.others = []string{other.address}
	start(t, Options{Name: "a", Plane: listen(t), Join: joining(t, first)})
	other.next()
	first.mu.Lock()
	first.others = nil
	first.mu.Unlock()
	other.server.Stop()
	for {
		c := first.next()
		select {
		case <-c.ended: // before it received the other
		case <-c.heartbeats:
			return
		}
	}
}

func TestAskIsRefused(t *testing.T) {
	o := newOffice(t)
	for _, c := range []struct{ cluster, refusal, want string }{
		{"", "go away", "refuses this node: go away"},
		{"other", "", "one of cluster " + testCluster + ", and this node belongs to other"},
	} {
		o.refusal = c.refusal
		j := &Join{Controllers: []string{newPort(t), o.address}, Identity: Identity{Cluster: c.cluster, Incarnation: 1}}
		if _, err := j.Ask(t.Context(), "a", "", "", quiet); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := (&Join{Controllers: []string{newPort(t)}}).Ask(ctx, "a", "", "", quiet); err == nil {
		t.Error("nobody answered, and it is no error")
	}
}

// TestClaimedPlane: a plane that lives on serves its own cluster only.
func TestClaimedPlane(t *testing.T) {
	o, plane := newOffice(t), listen(t)
	if err := plane.ConfigureAll(map[uint16]chain.ShardConfig{0: alone(plane, 1, chain.Active).Config}); err != nil {
		t.Fatal(err)
	}
	join := joining(t, o)
	if _, err := New(Options{Name: "a", Plane: plane, Join: join, Log: quiet}); err == nil ||
		!strings.Contains(err.Error(), "from another cluster") {
		t.Error(err)
	}
	note, err := json.Marshal(join.Identity)
	if err != nil {
		t.Fatal(err)
	}
	if join.Identity, err = ParseIdentity(note); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Name: "a", Plane: plane, Join: join})
	if i := o.next().inventory(); len(i.GetConfigs()) != 1 || i.GetConfigs()[0].GetEpoch() != 1 {
		t.Errorf("inventory is %v", i)
	}
	join.Identity.Shards = 2 * shards
	if _, err := New(Options{Name: "a", Plane: plane, Join: join, Log: quiet}); err == nil || !strings.Contains(err.Error(), "8 shards") {
		t.Error(err)
	}
}

// TestMapIsRelayed: clients learn the map from a node, also when no controller is left.
func TestMapIsRelayed(t *testing.T) {
	o := newOffice(t)
	a, err := New(Options{Name: "a", Plane: listen(t), Join: joining(t, o), API: "127.1.1.1:0", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	client, conn, err := dialController(a.API(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := client.Map(t.Context(), &controllerv1.MapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []uint64{3, 4} {
		o.maps <- &controllerv1.MapResponse{Version: version}
		if m, err := stream.Recv(); err != nil || m.GetVersion() != version {
			t.Fatalf("%v, %v, want version %d", m, err, version)
		}
	}
	o.server.Stop()
	late, err := client.Map(t.Context(), &controllerv1.MapRequest{Known: 3})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := late.Recv(); err != nil || m.GetVersion() != 4 {
		t.Errorf("%v, %v", m, err)
	}
}

func TestGroupsOfExport(t *testing.T) {
	groups := exportShards(map[uint16]uint32{1: 5, 2: 5, 3: 6, 4: 6}, map[uint16]uint32{4: 3})
	slices.SortFunc(groups, func(a, b *agentv1.ExportShards) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Since, b.Since))
	})
	if len(groups) != 3 || len(groups[0].Shards) != 2 || len(groups[1].Shards) != 1 || groups[2].Since != 3 {
		t.Errorf("%v", groups)
	}
}
