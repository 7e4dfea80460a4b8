package p4runtime

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// Numbers of testdata/tiny.p4info.txtpb.
const (
	hosts, fixed           = 0x02000001, 0x02000002
	forward, toCPU, dropIt = 0x01000001, 0x01000002, 0x01000003
	seen, marks            = 0x12000001, 0x16000001
	device                 = 7
	within                 = time.Minute
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func info(t testing.TB, path string) *config.P4Info {
	t.Helper()
	i := new(config.P4Info)
	if err := prototext.Unmarshal(read(t, path), i); err != nil {
		t.Fatal(err)
	}
	return i
}

func tinyInfo(t testing.TB) *config.P4Info { return info(t, "testdata/tiny.p4info.txtpb") }

func tinyConfig(t testing.TB) *p4v1.ForwardingPipelineConfig {
	return &p4v1.ForwardingPipelineConfig{
		P4Info: tinyInfo(t), P4DeviceConfig: read(t, "testdata/tiny.spec"),
		Cookie: &p4v1.ForwardingPipelineConfig_Cookie{Cookie: 42},
	}
}

// rig is a switch and a client of it.
type rig struct {
	testing.TB
	server *Server
	p4v1.P4RuntimeClient
	address string
	stop    func()
	engines []Engine // that were started
	wrap    func(Engine) Engine
	inside  *thread.Thread // of the engines' network namespace; nil: the process's
}

func newRig(t testing.TB, ports ...string) *rig {
	t.Helper()
	return newRigOf(t, func(s *Server) p4v1.P4RuntimeServer { return s }, ports...)
}

// newRigOf makes a rig whose clients see the switch as a function shows it.
func newRigOf(t testing.TB, shown func(*Server) p4v1.P4RuntimeServer, ports ...string) *rig {
	t.Helper()
	enginetest.Need(t)
	r := &rig{TB: t, wrap: func(e Engine) Engine { return e }}
	r.server = New(Options{Device: device, Ports: ports, Log: slog.New(slog.DiscardHandler),
		Start: func(program []byte) (Engine, error) {
			e, err := r.start(program)
			if err != nil {
				return nil, err
			}
			r.engines = append(r.engines, e)
			return r.wrap(e), nil
		}})
	server := grpc.NewServer()
	p4v1.RegisterP4RuntimeServer(server, shown(r.server))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address, r.stop = listener.Addr().String(), server.Stop
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	r.P4RuntimeClient = p4v1.NewP4RuntimeClient(conn)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := errors.Join(<-served, r.server.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) start(program []byte) (e *p4.SWX, err error) {
	if r.inside == nil {
		return p4.StartSWX(program, p4.EngineMegabytes)
	}
	err = r.inside.Do(func() (err error) {
		e, err = p4.StartSWX(program, p4.EngineMegabytes)
		return err
	})
	return e, err
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), within)
	r.Cleanup(cancel)
	return ctx
}

// controller is a stream with an election id.
type controller struct {
	*rig
	stream p4v1.P4Runtime_StreamChannelClient
	id     *p4v1.Uint128
	role   string
}

func (r *rig) open(role string, id *p4v1.Uint128) *controller {
	r.Helper()
	stream, err := r.StreamChannel(r.ctx())
	if err != nil {
		r.Fatal(err)
	}
	c := &controller{rig: r, stream: stream, id: id, role: role}
	c.arbitrate(device)
	return c
}

// primary is a controller that was told that it is primary, of a switch with the tiny program.
func primary(t *testing.T) *controller {
	t.Helper()
	return newRig(t).primary()
}

func (r *rig) primary() *controller {
	r.Helper()
	c := r.open("", &p4v1.Uint128{Low: 1})
	c.wantNotice(codes.OK, c.id)
	if err := c.set(verifyAndCommit, tinyConfig(r)); err != nil {
		r.Fatal(err)
	}
	return c
}

func (c *controller) arbitrate(device uint64) {
	c.Helper()
	m := &p4v1.MasterArbitrationUpdate{DeviceId: device, ElectionId: c.id}
	if c.role != "" {
		m.Role = &p4v1.Role{Name: c.role}
	}
	c.send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{Arbitration: m}})
}

func (c *controller) send(m *p4v1.StreamMessageRequest) {
	c.Helper()
	if err := c.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		c.Fatal(err)
	}
}

func (c *controller) wantNotice(code codes.Code, highest *p4v1.Uint128) {
	c.Helper()
	m, err := c.stream.Recv()
	if err != nil {
		c.Fatal(err)
	}
	a := m.GetArbitration()
	if a == nil || a.GetDeviceId() != device || a.GetRole().GetName() != c.role ||
		codes.Code(a.GetStatus().GetCode()) != code || !proto.Equal(a.GetElectionId(), highest) {
		c.Fatalf("notice %v, want %v and election id %v", m, code, highest)
	}
}

// wantEnd waits for the end of the stream.
func (c *controller) wantEnd(code codes.Code) {
	c.Helper()
	for {
		if _, err := c.stream.Recv(); err != nil {
			wantCode(c.TB, err, code)
			return
		}
	}
}

func wantCode(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v, want the code %v", err, code)
	}
}

func (c *controller) set(
	action p4v1.SetForwardingPipelineConfigRequest_Action, config *p4v1.ForwardingPipelineConfig,
) error {
	_, err := c.SetForwardingPipelineConfig(c.ctx(), &setRequest{
		DeviceId: device, Role: c.role, ElectionId: c.id, Action: action, Config: config,
	})
	return err
}

func (c *controller) write(updates ...*p4v1.Update) error {
	_, err := c.Write(c.ctx(), &p4v1.WriteRequest{
		DeviceId: device, Role: c.role, ElectionId: c.id, Updates: updates,
	})
	return err
}

// wantDetails checks the code of each part of a batch.
func wantDetails(t testing.TB, err error, want ...codes.Code) {
	t.Helper()
	wantCode(t, err, codes.Unknown)
	details := status.Convert(err).Details()
	if len(details) != len(want) {
		t.Fatalf("%d details of %v, want %v", len(details), err, want)
	}
	for i, d := range details {
		e, ok := d.(*p4v1.Error)
		if !ok || codes.Code(e.GetCanonicalCode()) != want[i] || (want[i] == codes.OK) != (e.GetMessage() == "") {
			t.Errorf("part %d: %v, want %v", i, d, want[i])
		}
	}
}

// find reads entities.
func (r *rig) find(entities ...*p4v1.Entity) ([]*p4v1.Entity, error) {
	r.Helper()
	stream, err := r.Read(r.ctx(), &p4v1.ReadRequest{DeviceId: device, Entities: entities})
	if err != nil {
		return nil, err
	}
	var all []*p4v1.Entity
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m.GetEntities()...)
	}
}

func entityOf(e *p4v1.TableEntry) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: e}}
}

func update(kind p4v1.Update_Type, e *p4v1.TableEntry) *p4v1.Update {
	return &p4v1.Update{Type: kind, Entity: entityOf(e)}
}

func exact(id uint32, value ...byte) *p4v1.FieldMatch {
	is := &p4v1.FieldMatch_Exact{Value: value}
	return &p4v1.FieldMatch{FieldId: id, FieldMatchType: &p4v1.FieldMatch_Exact_{Exact: is}}
}

func act(id uint32, params ...[]byte) *p4v1.TableAction {
	a := &p4v1.Action{ActionId: id}
	for i, p := range params {
		a.Params = append(a.Params, &p4v1.Action_Param{ParamId: uint32(i + 1), Value: p})
	}
	return &p4v1.TableAction{Type: &p4v1.TableAction_Action{Action: a}}
}

// host is an entry for a host's IPv4 frames.
func host(last byte, port byte) *p4v1.TableEntry {
	return &p4v1.TableEntry{
		TableId: hosts, Match: []*p4v1.FieldMatch{exact(1, 2, 0, 0, 0, 0, last), exact(2, 8, 0)},
		Action: act(forward, []byte{port}, []byte{last}),
	}
}

const (
	insert = p4v1.Update_INSERT
	modify = p4v1.Update_MODIFY
	remove = p4v1.Update_DELETE
)
