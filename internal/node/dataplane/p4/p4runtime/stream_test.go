package p4runtime

import (
	"bytes"
	"net"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// frameTo is an IPv4 frame to a host.
func frameTo(last byte) []byte {
	return append([]byte{2, 0, 0, 0, 0, last, 4, 0, 0, 0, 0, 1, 8, 0}, "payload"...)
}

func packet(payload []byte, metadata ...*p4v1.PacketMetadata) *p4v1.StreamMessageRequest {
	return &p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Packet{
		Packet: &p4v1.PacketOut{Payload: payload, Metadata: metadata},
	}}
}

func byPort(port ...byte) *p4v1.PacketMetadata {
	return &p4v1.PacketMetadata{MetadataId: 1, Value: port}
}

// marker is a host whose frames always come back, from another port.
const marker = 200

// mark makes the marker's entry.
func (c *controller) mark() {
	c.Helper()
	e := host(marker, 0)
	e.Action = act(toCPU)
	if err := c.write(update(insert, e)); err != nil {
		c.Fatal(err)
	}
}

// packetsOf sends a frame to a host, which comes in by port 5, and returns how many come back before the marker.
func (c *controller) packetsOf(last byte) (n int) {
	c.Helper()
	c.send(packet(frameTo(last), byPort(5)))
	c.send(packet(frameTo(marker), byPort(6)))
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.Fatal(err)
		}
		in := m.GetPacket()
		if bytes.Equal(in.GetPayload(), frameTo(marker)) {
			return n
		}
		if !bytes.Equal(in.GetPayload(), frameTo(last)) || len(in.GetMetadata()) != 7 ||
			!bytes.Equal(in.GetMetadata()[3].GetValue(), []byte{5}) || in.GetMetadata()[3].GetMetadataId() != 4 ||
			!bytes.Equal(in.GetMetadata()[1].GetValue(), []byte{byte(len(frameTo(last)))}) {
			c.Errorf("a packet %v", m)
		}
		n++
	}
}

// TestPackets: frames of controllers go through the program, and those for the CPU port come to the primary.
func TestPackets(t *testing.T) {
	c := primary(t)
	backup := c.open("", nil)
	backup.wantNotice(codes.AlreadyExists, c.id)
	c.mark()
	if n := c.packetsOf(1); n != 1 {
		t.Errorf("%d packets of an unknown host", n)
	}
	wantCode(t, c.write(update(insert, host(1, 3))), codes.OK)
	if n := c.packetsOf(1); n != 0 {
		t.Errorf("%d packets of a known host", n)
	}
	c.wantEntities(register(marks, at(1)), register(marks, at(1), 1)) // the action's mark
	c.wantEntities(counter(seen, at(5), 0), counter(seen, at(5), 2))
	backup.send(packet(frameTo(1), byPort(5)))
	backup.wantError(codes.PermissionDenied, func(e *p4v1.StreamError) bool { return e.GetPacketOut() != nil })
}

// wantError reads a stream's next message.
func (c *controller) wantError(code codes.Code, rest func(*p4v1.StreamError) bool) {
	c.Helper()
	m, err := c.stream.Recv()
	if err != nil {
		c.Fatal(err)
	}
	if e := m.GetError(); e == nil || codes.Code(e.GetCanonicalCode()) != code || e.GetMessage() == "" || !rest(e) {
		c.Errorf("%v, want an error %v", m, code)
	}
}

// TestStreamErrors: messages that fail are answered with the code of the specification, and the stream goes on.
func TestStreamErrors(t *testing.T) {
	r := newRig(t)
	ofPacket := func(e *p4v1.StreamError) bool { return e.GetPacketOut() != nil }
	stream, err := r.StreamChannel(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	stranger := &controller{rig: r, stream: stream} // without an arbitration
	stranger.send(packet(frameTo(1), byPort(1)))
	stranger.wantError(codes.PermissionDenied, ofPacket)
	c := r.open("", &p4v1.Uint128{Low: 1})
	c.wantNotice(codes.OK, c.id)
	c.send(packet(frameTo(1), byPort(1)))
	c.wantError(codes.FailedPrecondition, ofPacket)
	wantCode(t, c.set(verifyAndCommit, tinyConfig(t)), codes.OK)
	for _, bad := range []*p4v1.StreamMessageRequest{
		packet(frameTo(1)),
		packet(frameTo(1), byPort(1), byPort(1)),
		packet(frameTo(1), &p4v1.PacketMetadata{MetadataId: 2, Value: []byte{1}}),
		packet(frameTo(1), byPort()),
		packet(frameTo(1), byPort(1, 0)),
		packet(frameTo(1), byPort(200)),
		packet(make([]byte, 10000), byPort(1)),
	} {
		c.send(bad)
		c.wantError(codes.InvalidArgument, func(e *p4v1.StreamError) bool {
			return len(e.GetPacketOut().GetPacketOut().GetMetadata()) == len(bad.GetPacket().GetMetadata())
		})
	}
	ack := &p4v1.DigestListAck{DigestId: 3}
	c.send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_DigestAck{DigestAck: ack}})
	c.wantError(codes.InvalidArgument, func(e *p4v1.StreamError) bool {
		return proto.Equal(e.GetDigestListAck().GetDigestListAck(), ack)
	})
	c.send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Other{Other: new(anypb.Any)}})
	c.wantError(codes.Unimplemented, func(e *p4v1.StreamError) bool { return e.GetOther() != nil })
	c.mark()
	if n := c.packetsOf(1); n != 1 {
		t.Errorf("%d packets after the errors", n)
	}
}

// TestSlowController: a controller that does not read loses packets, and then its stream instead of a notice.
func TestSlowController(t *testing.T) {
	s := New(Options{Device: device})
	c := s.join()
	notices, err := s.elections.update(c.number, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range queued {
		s.notify(notices)
	}
	c.report(invalid("no room"), new(p4v1.StreamError))
	select {
	case <-c.slow:
		t.Error("an error report ends the stream")
	default:
	}
	for range 2 {
		s.notify(notices)
	}
	select {
	case <-c.slow:
	default:
		t.Error("a notice is lost, and the stream goes on")
	}
	s.leave(c)
}

// TestPorts: frames come in by network interfaces, of one pipeline only: a commit passes them on to the next.
func TestPorts(t *testing.T) {
	roottest.Need(t)
	r := newRig(t, "lo")
	r.enterNetwork()
	c := r.primary()
	wantCode(t, c.set(verifyAndSave, tinyConfig(t)), codes.OK)
	wantCode(t, c.set(commit, nil), codes.OK)
	var receiver net.PacketConn
	var conn net.Conn
	if err := r.inside.Do(func() (err error) {
		if receiver, err = net.ListenPacket("udp", "127.35.0.1:0"); err == nil {
			conn, err = net.Dial("udp", receiver.LocalAddr().String())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	defer conn.Close()
	for _, token := range []string{"the first", "the second"} {
		if _, err := conn.Write([]byte(token)); err != nil {
			t.Fatal(err)
		}
		m := c.datagram()
		if string(m.GetPayload()[udpAt:]) != token || !bytes.Equal(m.GetMetadata()[3].GetValue(), []byte{0}) {
			t.Errorf("packet %v, want %q once, by port 0", m, token)
		}
	}
}

// enterNetwork gives the engines a network namespace, where nobody else sends.
func (r *rig) enterNetwork() {
	r.Helper()
	inside, err := thread.Start(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(inside.Close)
	r.inside = inside
}

// udpAt is where the contents of a datagram begin in its frame.
const udpAt = 14 + 20 + 8

// datagram waits for the next one of TestPorts.
func (c *controller) datagram() *p4v1.PacketIn {
	c.Helper()
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.Fatal(err)
		}
		b := m.GetPacket().GetPayload()
		if len(b) > udpAt && bytes.Equal(b[30:34], []byte{127, 35, 0, 1}) && b[23] == 17 {
			return m.GetPacket()
		}
	}
}
