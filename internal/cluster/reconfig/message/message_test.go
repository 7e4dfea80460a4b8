package message

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
)

var (
	self    = netip.MustParseAddrPort("192.0.2.1:4411")
	other   = netip.MustParseAddrPort("192.0.2.2:4411")
	byValue = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
)

func TestMessagesComeThrough(t *testing.T) {
	active := chain.ShardConfig{Epoch: 7, State: chain.Active, Self: 1, Members: []netip.AddrPort{other, self}}
	frozen := chain.ShardConfig{Epoch: 8, State: chain.Frozen, Self: 0, Members: []netip.AddrPort{self, other}}
	order := reconfig.Order{Term: 5, Number: 6, Configs: map[uint16]reconfig.ShardOrder{
		0: {Config: active}, 9: {Config: active}, 65535: {Config: frozen}, 3: {Config: chain.ShardConfig{Epoch: 2},
			Source: "192.0.2.3:4412", Born: 1}, 4: {Config: chain.ShardConfig{Epoch: 9}, Keep: true},
	}}
	message := FromOrder(&order)
	if len(message.Configs) != 4 {
		t.Errorf("%d groups of shards, not 4: %v", len(message.Configs), message)
	}
	got, err := Order(self, message)
	if diff := cmp.Diff(order, got, byValue); err != nil || diff != "" {
		t.Error(err, diff)
	}
	inventory := reconfig.Inventory{Node: 3, Incarnation: 4, Term: 5, Configs: map[uint16]chain.ShardConfig{0: active,
		9: active, 65535: frozen, 7: {Epoch: 9, Base: 8}}}
	if got, err := Inventory(3, 4, self, FromInventory(&inventory)); err != nil || !cmp.Equal(inventory, got, byValue) {
		t.Error(err, got)
	}
	registration := reconfig.Registration{
		Name: "n1", Addr: self, API: "192.0.2.1:4412", Labels: map[string]string{"zone": "a"}, Capacity: 100, Incarnation: 1 << 63,
		CellBytes: 128, Cluster: "c0ffee", Shards: 256,
	}
	if got, err := Registration(FromRegistration(&registration)); err != nil || !cmp.Equal(registration, got, byValue) {
		t.Error(err, got)
	}
	heartbeat := reconfig.Heartbeat{
		Departing: true,
		Node:      3, Incarnation: 4, Stamp: 1 << 60, LeaseLeft: -5 * time.Microsecond, Done: 6, Term: 7, Refused: "no", Wiping: 8,
		Copies: []reconfig.Copied{{Shard: 65535, Epoch: 1, Objects: 2, Bytes: 3, Complete: true}},
	}
	if got := Heartbeat(3, 4, FromHeartbeat(&heartbeat)); !cmp.Equal(heartbeat, got) {
		t.Error(got)
	}
	grant := reconfig.Grant{Stamp: 1 << 60, Lease: 60 * time.Millisecond, Majority: 2}
	if got := Grant(FromGrant(grant)); got != grant {
		t.Error(got)
	}
}

func TestBadMessagesAreRefused(t *testing.T) {
	chain := []string{self.String(), other.String()}
	for name, bad := range map[string]*controllerv1.NodeShards{
		"no shard":        {Shards: []uint32{65536}, Epoch: 1, State: 1, Members: chain},
		"shard twice":     {Shards: []uint32{1, 1}, Epoch: 1, State: 1, Members: chain},
		"unknown state":   {Shards: []uint32{1}, Epoch: 1, State: 257, Members: chain},
		"another's chain": {Shards: []uint32{1}, Epoch: 1, State: 1, Members: chain[1:]},
		"no chain":        {Shards: []uint32{1}, Epoch: 1, State: 1},
		"no address":      {Shards: []uint32{1}, Epoch: 1, State: 1, Members: []string{"node"}},
		"long chain":      {Shards: []uint32{1}, Epoch: 1, State: 1, Members: make([]string, 1000)},
		"learner at end":  {Shards: []uint32{1}, Epoch: 1, State: 1, Learner: true, Members: chain},
	} {
		list := []*controllerv1.NodeShards{bad}
		if _, err := Order(self, &controllerv1.Order{Configs: list}); err == nil {
			t.Errorf("%s: the order is taken", name)
		}
		if _, err := Inventory(3, 4, self, &controllerv1.Inventory{Configs: list}); err == nil {
			t.Errorf("%s: the inventory is taken", name)
		}
	}
}
