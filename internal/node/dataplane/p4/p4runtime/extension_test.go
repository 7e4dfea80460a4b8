package p4runtime

import (
	"slices"
	"testing"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/netcraq/netcraq/api/switchv1"
)

// TestExtensionRefuses: only a primary's requests that make sense are done.
func TestExtensionRefuses(t *testing.T) {
	c := primary(t)
	backup := c.open("", &p4v1.Uint128{})
	backup.wantNotice(codes.AlreadyExists, c.id)
	hold := &switchv1.Request{Number: 1, What: &switchv1.Request_Hold{Hold: new(switchv1.Hold)}}
	backup.wantAnswer(hold, codes.PermissionDenied)
	c.wantAnswer(new(switchv1.Request), codes.Unimplemented)
	release := &switchv1.Request{Number: 2, What: &switchv1.Request_Release{Release: new(switchv1.Release)}}
	c.wantAnswer(release, codes.FailedPrecondition)
	c.wantAnswer(hold, codes.OK)
	c.wantAnswer(release, codes.OK)
	c.wantAnswer(release, codes.FailedPrecondition)
	noPort := &switchv1.Request{What: &switchv1.Request_Try{Try: &switchv1.Packet{Port: 99}}}
	c.wantAnswer(noPort, codes.InvalidArgument)
	for _, row := range []struct {
		is   *switchv1.Row
		want codes.Code
	}{
		{&switchv1.Row{Array: hosts, Count: 1}, codes.InvalidArgument},
		{&switchv1.Row{Array: marks, First: 3, Count: 2}, codes.OutOfRange},
		{&switchv1.Row{Array: marks, First: 1<<32 - 1, Count: 1<<32 - 1}, codes.OutOfRange},
		{&switchv1.Row{Array: marks, Count: 1, Values: []uint64{1}}, codes.InvalidArgument},
		{&switchv1.Row{Array: marks, Values: []uint64{1 << 16}}, codes.InvalidArgument},
		{&switchv1.Row{Array: seen, Values: []uint64{1 << 63}}, codes.InvalidArgument},
		{&switchv1.Row{Array: marks, First: 3, Values: []uint64{1}}, codes.OK},
	} {
		c.wantAnswer(rowsOf(row.is), row.want)
	}
	backup.wantAnswer(rowsOf(&switchv1.Row{Array: marks, Count: 1}), codes.PermissionDenied)
	many := slices.Repeat([]*switchv1.Row{{Array: marks, Count: 4}}, readBatch/4)
	c.wantAnswer(rowsOf(many...), codes.OK)
	c.wantAnswer(rowsOf(append(many, many[0])...), codes.InvalidArgument)
}

func rowsOf(rows ...*switchv1.Row) *switchv1.Request {
	return &switchv1.Request{What: &switchv1.Request_Rows{Rows: &switchv1.Rows{Rows: rows}}}
}

func (c *controller) wantAnswer(r *switchv1.Request, code codes.Code) {
	c.Helper()
	packed, err := anypb.New(r)
	if err != nil {
		c.Fatal(err)
	}
	c.send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Other{Other: packed}})
	m, err := c.stream.Recv()
	if err != nil {
		c.Fatal(err)
	}
	answer := new(switchv1.Answer)
	if err := m.GetOther().UnmarshalTo(answer); err != nil {
		c.Fatalf("%v: %v", m, err)
	}
	if codes.Code(answer.GetCode()) != code || answer.GetNumber() != r.GetNumber() {
		c.Errorf("%v has the answer %v, want %v", r, answer, code)
	}
}

// FuzzAnswers: a node survives what a switch sends.
func FuzzAnswers(f *testing.F) {
	for _, m := range []proto.Message{
		&p4v1.PacketIn{Payload: []byte{1}, Metadata: []*p4v1.PacketMetadata{{MetadataId: 1, Value: []byte{1, 2}}}},
		place{1, 4, false}.entity(at(3), new(uint64)), place{1, 4, true}.entity(at(3), new(uint64)),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	c, err := catalogOf(&config.P4Info{ControllerPacketMetadata: []*config.ControllerPacketMetadata{
		{Preamble: &config.Preamble{Name: packetIn}, Metadata: []*config.ControllerPacketMetadata_Metadata{
			{Id: 1, Bitwidth: 9}, {Id: 2, Bitwidth: 7},
		}},
		{Preamble: &config.Preamble{Name: packetOut}, Metadata: []*config.ControllerPacketMetadata_Metadata{
			{Id: 1, Name: portField},
		}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, e := new(p4v1.PacketIn), new(p4v1.Entity)
		if proto.Unmarshal(b, m) == nil {
			if frame, err := c.frameOf(m); err == nil && len(frame) != 2+len(m.GetPayload()) {
				t.Errorf("%v is a frame of %d bytes", m, len(frame))
			}
		}
		if proto.Unmarshal(b, e) == nil {
			_, _, _ = valueOf(e) // an error is fine
		}
	})
}
