package p4runtime

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	artefacts "github.com/netcraq/netcraq/p4"

	"github.com/netcraq/netcraq/api/switchv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/wire"
)

// target is the rig's switch as a node's. A node waits for answers until the switch cannot be busy, only broken.
func (r *rig) target() Target {
	t := NodeTarget(r.address, device, grpc.WithTransportCredentials(insecure.NewCredentials()))
	t.Patience = within
	return t
}

func (r *rig) dial() *Remote {
	r.Helper()
	sw, err := Dial(r.ctx(), r.target())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := sw.Close(); err != nil && !errors.Is(err, p4.ErrGone) {
			r.Error(err)
		}
	})
	return sw
}

// wantGone waits until a switch is gone, for a reason, and no request is made any more.
func wantGone(t *testing.T, sw *Remote, reason string) {
	t.Helper()
	select {
	case <-sw.Gone():
	case <-time.After(within):
		t.Fatal("the switch is not gone")
	}
	var r p4.Request
	r.Write("Node.state.objects_full", 0, 1)
	if err := sw.Do(&r); !errors.Is(err, p4.ErrGone) || !strings.Contains(err.Error(), reason) {
		t.Errorf("a request has %v, want %q", err, reason)
	}
	for range sw.ForCPU() { // it is closed
	}
}

func nodeConfig(t testing.TB, cookie uint64) *p4v1.ForwardingPipelineConfig {
	return &p4v1.ForwardingPipelineConfig{
		P4Info: info(t, "../../../../../p4/netcraq.p4info.txtpb"), P4DeviceConfig: artefacts.Program,
		Cookie: &p4v1.ForwardingPipelineConfig_Cookie{Cookie: cookie},
	}
}

// TestDialRefuses: a node does not take a switch that is away, that another controller drives, or that runs another
// program, and changes nothing there.
func TestDialRefuses(t *testing.T) {
	r := newRig(t)
	refused := func(to Target, want string) {
		t.Helper()
		sw, err := Dial(r.ctx(), to)
		if err == nil {
			t.Fatalf("a switch is taken, %v, want %q", sw.Close(), want)
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), to.Address) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	away, other := r.target(), r.target()
	away.Address = "127.0.0.1:1"
	refused(away, "start the switch")
	other.Device++
	refused(other, "the switch is device 7")

	c := r.primary()
	if err := c.write(update(insert, host(1, 1))); err != nil {
		t.Fatal(err)
	}
	refused(r.target(), "another controller is its primary")
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(1, 1)))

	c.leave()
	refused(r.target(), "another program (tiny")
	d := r.open("", &p4v1.Uint128{Low: 2})
	d.wantNotice(codes.OK, d.id)
	d.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(1, 1)))
	if err := d.set(verifyAndCommit, nodeConfig(t, 5)); err != nil {
		t.Fatal(err)
	}
	d.leave()
	refused(r.target(), "another program (netcraq.p4, with the cookie 0x5)")
}

// leave ends a controller, and waits until the switch knows.
func (c *controller) leave() {
	c.Helper()
	if err := c.stream.CloseSend(); err != nil {
		c.Fatal(err)
	}
	c.wantEnd(codes.Unknown)
}

// TestSwitchIsLost: a node whose switch ended, was restarted or has another controller or program changes nothing more,
// and says why.
func TestSwitchIsLost(t *testing.T) {
	replaced := func(with func(testing.TB) *p4v1.ForwardingPipelineConfig) func(*rig, *Remote) error {
		return func(r *rig, _ *Remote) error {
			c := r.open("other", &p4v1.Uint128{Low: 1})
			c.wantNotice(codes.OK, c.id)
			return c.set(verifyAndCommit, with(r))
		}
	}
	ofSameName := func(t testing.TB) *p4v1.ForwardingPipelineConfig { return nodeConfig(t, 6) }
	for name, c := range map[string]struct {
		want string
		end  func(*rig, *Remote) error
	}{
		"away":    {"was restarted", func(r *rig, _ *Remote) error { r.stop(); return nil }},
		"emptied": {"its pipeline is gone", func(r *rig, _ *Remote) error { return r.engines[0].Close() }},
		"taken": {"another controller is its primary", func(r *rig, sw *Remote) error {
			r.open("", &p4v1.Uint128{High: sw.id.GetHigh() + 1})
			return nil
		}},
		"another P4Info":  {"gave it another program", replaced(tinyConfig)},
		"of another hash": {"gave it another program", replaced(ofSameName)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			sw := r.dial()
			if err := c.end(r, sw); err != nil {
				t.Fatal(err)
			}
			wantGone(t, sw, c.want)
		})
	}
}

// TestLateWrite: a request of a controller that is no longer primary changes nothing, if it is late.
func TestLateWrite(t *testing.T) {
	r := newRig(t)
	first := r.dial()
	c := r.open("", &p4v1.Uint128{High: first.id.GetHigh() + 1})
	c.wantNotice(codes.OK, c.id)
	full := first.catalog.arrays["Node.state.objects_full"]
	zero, one := uint64(0), uint64(1)
	_, err := r.Write(r.ctx(), &p4v1.WriteRequest{
		DeviceId: device, ElectionId: first.id, Updates: []*p4v1.Update{{Type: modify, Entity: full.entity(at(0), &one)}},
	})
	wantCode(t, err, codes.PermissionDenied)
	c.wantEntities(full.entity(at(0), nil), full.entity(at(0), &zero))
}

// pauses counts the holds of an engine.
type pauses struct {
	Engine
	now *int
}

func (p pauses) Pause(paused bool) error {
	if *p.now--; paused {
		*p.now += 2
	}
	return p.Engine.Pause(paused)
}

// TestHoldEndsWithItsController: a switch does not stand still for a controller that is gone or deposed.
func TestHoldEndsWithItsController(t *testing.T) {
	for name, end := range map[string]func(*rig, *Remote){
		"gone":    func(_ *rig, sw *Remote) { sw.cancel() },
		"deposed": func(r *rig, sw *Remote) { r.open("", &p4v1.Uint128{High: sw.id.GetHigh() + 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			now := 0
			r.wrap = func(e Engine) Engine { return pauses{e, &now} }
			sw := r.dial()
			if err := errors.Join(sw.Pause(true), sw.Pause(true), sw.Pause(false)); err != nil {
				t.Fatal(err)
			}
			end(r, sw)
			wantGone(t, sw, "")
			if name == "gone" { // another is primary only after the switch saw the end of the stream
				r.dial()
			}
			r.server.mu.Lock()
			defer r.server.mu.Unlock()
			if now != 0 {
				t.Errorf("%d holds are left", now)
			}
		})
	}
}

// lacking is the server of a switch that lacks something.
type lacking struct {
	*Server
	read, write func(*p4v1.Entity) bool // UNIMPLEMENTED
	lose        func() bool             // the next packet of the stream, in either direction
}

func hasRegisters(e *p4v1.Entity) bool { return e.GetRegisterEntry() != nil }
func hasCounters(e *p4v1.Entity) bool  { return e.GetCounterEntry() != nil }
func hasNothing(*p4v1.Entity) bool     { return false }

func (l lacking) Read(r *p4v1.ReadRequest, stream p4v1.P4Runtime_ReadServer) error {
	errs := make([]error, len(r.GetEntities()))
	for i, e := range r.GetEntities() {
		if l.read(e) {
			errs[i] = unimplemented(e)
		}
	}
	if err := batchError("some entities cannot be read", errs); err != nil {
		return err
	}
	return l.Server.Read(r, stream)
}

func (l lacking) Write(ctx context.Context, r *p4v1.WriteRequest) (*p4v1.WriteResponse, error) {
	for _, u := range r.GetUpdates() {
		if l.write(u.GetEntity()) {
			return nil, unimplemented(u.GetEntity())
		}
	}
	return l.Server.Write(ctx, r)
}

// StreamChannel knows no rows.
func (l lacking) StreamChannel(stream p4v1.P4Runtime_StreamChannelServer) error {
	return l.Server.StreamChannel(withoutRows{losing{stream, l.lose}})
}

type losing struct {
	p4v1.P4Runtime_StreamChannelServer
	lose func() bool
}

func (l losing) Recv() (*p4v1.StreamMessageRequest, error) {
	for {
		if m, err := l.P4Runtime_StreamChannelServer.Recv(); err != nil || m.GetPacket() == nil || !l.lose() {
			return m, err
		}
	}
}

func (l losing) Send(m *p4v1.StreamMessageResponse) error {
	if m.GetPacket() != nil && l.lose() {
		return nil
	}
	return l.P4Runtime_StreamChannelServer.Send(m)
}

type withoutRows struct {
	p4v1.P4Runtime_StreamChannelServer
}

func (w withoutRows) Recv() (*p4v1.StreamMessageRequest, error) {
	m, err := w.P4Runtime_StreamChannelServer.Recv()
	r := new(switchv1.Request)
	if m.GetOther().UnmarshalTo(r) != nil || r.GetRows() == nil {
		return m, err
	}
	r.What = nil
	return m, m.GetOther().MarshalFrom(r)
}

func lackingRig(t testing.TB, read, write func(*p4v1.Entity) bool) *rig {
	return losingRig(t, read, write, func() bool { return false })
}

func losingRig(t testing.TB, read, write func(*p4v1.Entity) bool, lose func() bool) *rig {
	return newRigOf(t, func(s *Server) p4v1.P4RuntimeServer { return lacking{s, read, write, lose} })
}

// TestTargetsWithoutCounters: a node does not start on a switch whose server has no counters, as its answers show, and
// says what is missing.
func TestTargetsWithoutCounters(t *testing.T) {
	for name, r := range map[string]*rig{
		"counters are not read":    lackingRig(t, hasCounters, hasNothing),
		"counters are not written": lackingRig(t, hasNothing, hasCounters),
	} {
		sw, err := Dial(r.ctx(), r.target())
		if err == nil {
			t.Fatalf("%s: a node starts, %v", name, sw.Close())
		}
		if !strings.Contains(err.Error(), "implements CounterEntry") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRowsAndPlaces: a node reads and writes the same by rows as by a message for each place.
func TestRowsAndPlaces(t *testing.T) {
	for _, r := range []*rig{newRig(t), lackingRig(t, hasNothing, hasNothing)} {
		sw := r.dial()
		n, err := p4.NewNode(sw, netip.MustParseAddrPort("10.77.0.2:4411"),
			chain.Options{Shards: 2, CellBytes: 64, MaxObjects: 3, MaxSessions: 16})
		if err != nil {
			t.Fatal(err)
		}
		objects := []dataplane.KeyedObject{
			{Key: wire.Key{Hi: 1}, Object: chain.Object{Version: 1 << 63, Committed: 5, Value: []byte("a"), Reads: 7}},
			{Key: wire.Key{Lo: 2}, Object: chain.Object{Version: 4, Committed: 4, Epoch: 3, Value: []byte("b")}},
		}
		if err := n.Import(objects, nil); err != nil {
			t.Fatal(err)
		}
		var found []dataplane.KeyedObject
		err = n.Export(dataplane.Everything([]uint16{0, 1}), func(k wire.Key, o chain.Object) error {
			found = append(found, dataplane.KeyedObject{Key: k, Object: o})
			return nil
		}, nil)
		objects[0].Object.Reads = 0 // each node counts its own
		if err != nil || !reflect.DeepEqual(found, objects) {
			t.Errorf("by places: %v: %v, %+v, want %+v", sw.byPlace, err, found, objects)
		}
		first := sw.catalog.arrays["Node.state.object_version"]
		values := make([]uint64, first.size)
		var all p4.Request
		all.Read("Node.state.object_version", 0, values) // in several parts
		if err := sw.Do(&all); err != nil || values[0] != 1<<63 || values[1] != 4 || values[first.size-1] != 0 {
			t.Errorf("by places: %v: %v, %v", sw.byPlace, err, values[:2])
		}
	}
}

// TestRemoteNode: a node works on a switch of another process as on an engine of its own.
func TestRemoteNode(t *testing.T) {
	r := newRig(t)
	self := netip.MustParseAddrPort("10.77.0.2:4411")
	sw := r.dial()
	n, err := p4.NewNode(sw, self, chain.Options{Shards: 2, CellBytes: 64, MaxObjects: 3, MaxSessions: 16})
	if err != nil {
		t.Fatal(err)
	}
	to := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, byte(i >> 8), byte(i)}) }
	routes := make([]p4.Route, 4096)
	for i := range routes {
		routes[i].To = to(i)
	}
	if err := n.ChangeRoutes(routes, nil); err != nil {
		t.Fatal(err)
	}
	more := []p4.Route{{To: to(len(routes))}, {To: to(0), Port: 3}}
	if err := n.ChangeRoutes(more, nil); err == nil || !strings.Contains(err.Error(), "a table is full") {
		t.Errorf("one more: %v", err)
	}
	for _, change := range []struct{ add, remove []p4.Route }{{nil, routes[1:2]}, {more, nil}} {
		if err := n.ChangeRoutes(change.add, change.remove); err != nil {
			t.Errorf("one more in the place of another: %v", err)
		}
	}
	if err := sw.Close(); err != nil {
		t.Fatal(err)
	}
	again := r.open("", &p4v1.Uint128{High: sw.id.GetHigh() + 1})
	again.wantNotice(codes.OK, again.id)
	again.wantEntities(entityOf(new(p4v1.TableEntry))) // a node that left answers nothing
}
