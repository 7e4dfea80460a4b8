package message

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/google/go-cmp/cmp"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/node/chain"
)

// FuzzOrder gives a node arbitrary orders. Each is refused, or is the same when it is encoded again, and only configurations
// that planes accept get through.
func FuzzOrder(f *testing.F) {
	for _, o := range []*controllerv1.Order{
		{Term: 1, Number: 1, Configs: []*controllerv1.NodeShards{{Shards: []uint32{0, 65535}, Epoch: 3, State: 1,
			Members: []string{self.String(), other.String()}}}},
		{Term: 1, Number: 2, Configs: []*controllerv1.NodeShards{{Shards: []uint32{7}, Epoch: 4}}},
		{Configs: []*controllerv1.NodeShards{{Shards: []uint32{7, 7}, State: 2, Learner: true,
			Members: []string{other.String(), self.String(), "x"}, Source: "y"}}},
	} {
		b, err := proto.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := new(controllerv1.Order)
		if proto.Unmarshal(b, in) != nil {
			return
		}
		order, err := Order(self, in)
		if err != nil {
			return
		}
		for shard, s := range order.Configs {
			if err := s.Config.Validate(); err != nil {
				t.Errorf("shard %d gets %+v: %v", shard, s.Config, err)
			}
			if s.Config.State != chain.None && s.Config.Members[s.Config.Self] != self {
				t.Errorf("shard %d: this node is somebody else in %+v", shard, s.Config)
			}
		}
		if again, err := Order(self, FromOrder(&order)); err != nil || !cmp.Equal(order, again, byValue) {
			t.Errorf("%+v, sent on, is %+v (%v)", order, again, err)
		}
	})
}

// FuzzFromNode does the same with messages from nodes to controllers.
func FuzzFromNode(f *testing.F) {
	for _, m := range []*controllerv1.NodeMessage{
		{Kind: &controllerv1.NodeMessage_Hello{Hello: &controllerv1.Hello{Name: "n1", Addr: self.String(),
			Api: "192.0.2.1:4412", Incarnation: 1}}},
		{Kind: &controllerv1.NodeMessage_Beat{Beat: &controllerv1.Beat{StampNs: 1, Copies: []*controllerv1.Copied{{Shard: 1, Epoch: 1}}}}},
		{Kind: &controllerv1.NodeMessage_Inventory{Inventory: &controllerv1.Inventory{
			Configs: []*controllerv1.NodeShards{{Shards: []uint32{0}, Epoch: 3, State: 1, Members: []string{self.String()}}}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := new(controllerv1.NodeMessage)
		if proto.Unmarshal(b, in) != nil {
			return
		}
		Heartbeat(1, 2, in.GetBeat())
		if h, err := Registration(in.GetHello()); err == nil && !h.Addr.IsValid() {
			t.Errorf("a node at no address: %+v", h)
		}
		i, err := Inventory(1, 2, self, in.GetInventory())
		if err != nil {
			return
		}
		if again, err := Inventory(1, 2, self, FromInventory(&i)); err != nil || !cmp.Equal(i, again, byValue) {
			t.Errorf("%+v, sent on, is %+v (%v)", i, again, err)
		}
	})
}
