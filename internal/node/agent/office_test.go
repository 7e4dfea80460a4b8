package agent

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
)

const (
	testCluster = "0123"
	testLease   = time.Minute // tests that need an end stop to grant, and shorten it
)

// office is a server in a controller's place: the test gives its orders.
type office struct {
	controllerv1.UnimplementedControllerServer
	t        *testing.T
	address  string
	server   *grpc.Server
	majority uint32
	cluster  string

	grants  atomic.Int64 // a lease of so many nanoseconds to every heartbeat; 0: none
	calls   chan *call
	maps    chan *controllerv1.MapResponse
	mu      sync.Mutex
	others  []string // all controllers; none: this one
	refusal string
}

// call is a node's connection.
type call struct {
	t            *testing.T
	registration *controllerv1.Hello
	stream       grpc.BidiStreamingServer[controllerv1.NodeMessage, controllerv1.ControllerMessage]
	sending      sync.Mutex
	heartbeats   chan *controllerv1.Beat // the newest
	inventories  chan *controllerv1.Inventory
	ended        chan struct{}
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, cluster: testCluster, majority: 1, calls: make(chan *call, 10), maps: make(chan *controllerv1.MapResponse, 10)}
	o.open(newPort(t))
	return o
}

func (o *office) open(address string) {
	o.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		o.t.Fatal(err)
	}
	o.address, o.server = listener.Addr().String(), grpc.NewServer()
	controllerv1.RegisterControllerServer(o.server, o)
	go o.server.Serve(listener)
	o.t.Cleanup(o.server.Stop)
}

func (o *office) Attend(stream grpc.BidiStreamingServer[controllerv1.NodeMessage, controllerv1.ControllerMessage]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	o.mu.Lock()
	refusal, others := o.refusal, o.others
	o.mu.Unlock()
	if refusal != "" {
		return stream.Send(&controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Refusal{Refusal: refusal}})
	}
	if len(others) == 0 {
		others = []string{o.address}
	}
	welcome := &controllerv1.Welcome{
		Cluster: o.cluster, Shards: shards, CellBytes: uint32(testOptions.CellBytes), BeatUs: 1000, Controllers: others, Controller: o.address,
	}
	if first.GetHello().GetShards() > 0 {
		welcome.Node = 7
	}
	if err := stream.Send(&controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Welcome{
		Welcome: welcome}}); err != nil || welcome.Node == 0 {
		return err
	}
	c := &call{
		t: o.t, registration: first.GetHello(), stream: stream, heartbeats: make(chan *controllerv1.Beat, 1),
		inventories: make(chan *controllerv1.Inventory, 10), ended: make(chan struct{}),
	}
	defer close(c.ended)
	o.calls <- c
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		o.take(c, m)
	}
}

func (o *office) take(c *call, m *controllerv1.NodeMessage) {
	if m.GetInventory() != nil {
		c.inventories <- m.GetInventory()
	}
	if m.GetBeat() == nil {
		return
	}
	select {
	case <-c.heartbeats:
	default:
	}
	c.heartbeats <- m.GetBeat()
	if lease := time.Duration(o.grants.Load()); lease > 0 {
		c.send(&controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Grant{Grant: &controllerv1.Grant{
			StampNs: m.GetBeat().GetStampNs(), LeaseUs: uint32(lease.Microseconds()), Majority: o.majority,
		}}})
	}
}

func (o *office) Map(_ *controllerv1.MapRequest, stream grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case m := <-o.maps:
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
}

// next is the next node that calls.
func (o *office) next() *call {
	o.t.Helper()
	select {
	case c := <-o.calls:
		return c
	case <-time.After(patience):
		o.t.Fatal("no node called")
		return nil
	}
}

func (c *call) send(m *controllerv1.ControllerMessage) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.stream.Send(m) // a node that is gone misses it
}

func (c *call) order(o reconfig.Order) {
	c.send(&controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Order{Order: message.FromOrder(&o)}})
}

// until waits for a heartbeat with the state that the test waits for.
func (c *call) until(what string, is func(*controllerv1.Beat) bool) *controllerv1.Beat {
	c.t.Helper()
	late := time.After(patience)
	for {
		select {
		case b := <-c.heartbeats:
			if is(b) {
				return b
			}
		case <-late:
			c.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// done waits until an order is applied.
func (c *call) done(term, number uint64) {
	c.t.Helper()
	c.until("the order is applied", func(b *controllerv1.Beat) bool { return b.GetTerm() == term && b.GetDone() == number })
}

func (c *call) inventory() *controllerv1.Inventory {
	c.t.Helper()
	select {
	case i := <-c.inventories:
		return i
	case <-time.After(patience):
		c.t.Fatal("no inventory came")
		return nil
	}
}

// joining are the options of a node that has asked these controllers.
func joining(t *testing.T, offices ...*office) *Join {
	t.Helper()
	j := &Join{Capacity: 1, Labels: map[string]string{"zone": "z"}, Identity: NewIdentity()}
	for _, o := range offices {
		j.Controllers = append(j.Controllers, o.address)
	}
	var err error
	if j.Identity, err = j.Ask(t.Context(), "a", "127.1.1.1:1", "127.1.1.1:2", quiet); err != nil {
		t.Fatal(err)
	}
	return j
}
