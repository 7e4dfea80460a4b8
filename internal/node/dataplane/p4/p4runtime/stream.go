package p4runtime

import (
	"errors"
	"io"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// queued is how many messages wait for a controller. Frames beyond that are lost; a controller that does not
// read notices loses its stream.
const queued = 1024

// client is the stream of a controller.
type client struct {
	number int
	out    chan *p4v1.StreamMessageResponse
	slow   chan struct{} // closed: a notice has no room
	stuck  bool
	gone   bool
}

// StreamChannel serves a controller's stream until it ends.
func (s *Server) StreamChannel(stream p4v1.P4Runtime_StreamChannelServer) error {
	c := s.join()
	defer s.leave(c)
	received := make(chan error, 1)
	go func() { received <- s.receive(c, stream) }()
	for {
		select {
		case m := <-c.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-c.slow:
			return status.Errorf(codes.ResourceExhausted, "%d messages wait for this controller: read them", queued)
		case err := <-received:
			if lost := c.drain(stream); lost != nil {
				return lost
			}
			return err
		}
	}
}

// drain sends what was queued before the stream ended.
func (c *client) drain(stream p4v1.P4Runtime_StreamChannelServer) error {
	for {
		select {
		case m := <-c.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *Server) join() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	c := &client{number: s.streams, out: make(chan *p4v1.StreamMessageResponse, queued), slow: make(chan struct{})}
	s.clients[c.number] = c
	return c
}

func (s *Server) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.gone = true
	delete(s.clients, c.number)
	s.notify(s.elections.leave(c.number))
	s.releaseLost()
}

// receive handles what a controller sends, until the stream ends.
func (s *Server) receive(c *client, stream p4v1.P4Runtime_StreamChannelServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.handle(c, m)
		}
		if err != nil {
			return err
		}
	}
}

// handle handles one message; an error ends the stream.
func (s *Server) handle(c *client, m *p4v1.StreamMessageRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return nil
	}
	switch u := m.GetUpdate().(type) {
	case *p4v1.StreamMessageRequest_Arbitration:
		return s.arbitrate(c, u.Arbitration)
	case *p4v1.StreamMessageRequest_Packet:
		if err := s.packetOut(c, u.Packet); err != nil {
			c.report(err, &p4v1.StreamError{Details: &p4v1.StreamError_PacketOut{
				PacketOut: &p4v1.PacketOutError{PacketOut: &p4v1.PacketOut{Metadata: u.Packet.GetMetadata()}},
			}})
		}
	case *p4v1.StreamMessageRequest_DigestAck:
		about := &p4v1.DigestListAckError{DigestListAck: u.DigestAck}
		c.report(invalid("the P4Info has no digest %d", u.DigestAck.GetDigestId()), &p4v1.StreamError{
			Details: &p4v1.StreamError_DigestListAck{DigestListAck: about},
		})
	case *p4v1.StreamMessageRequest_Other:
		s.other(c, u.Other)
	default:
		return invalid("a message has an update")
	}
	return nil
}

func (s *Server) arbitrate(c *client, m *p4v1.MasterArbitrationUpdate) error {
	if err := s.checkDevice(m.GetDeviceId()); err != nil {
		if _, known := s.elections.streams[c.number]; known {
			return status.Error(codes.FailedPrecondition, status.Convert(err).Message()+", as before on this stream")
		}
		return err
	}
	if m.GetRole().GetConfig() != nil || m.GetRole().GetId() != 0 {
		return invalid("the switch has roles with a name, and no config or number: each may do everything")
	}
	notices, err := s.elections.update(c.number, m.GetRole().GetName(), idOf(m.GetElectionId()))
	if err != nil {
		return err
	}
	s.notify(notices)
	s.releaseLost()
	return nil
}

// notify queues notices of elections.
func (s *Server) notify(notices []notice) {
	for _, n := range notices {
		m := &p4v1.MasterArbitrationUpdate{DeviceId: s.o.Device, Status: &rpc.Status{Code: int32(n.code)}}
		if n.role != "" {
			m.Role = &p4v1.Role{Name: n.role}
		}
		if n.highest != nil {
			m.ElectionId = &p4v1.Uint128{High: n.highest.high, Low: n.highest.low}
		}
		switch n.code {
		case codes.AlreadyExists:
			m.Status.Message = "another controller is primary"
		case codes.NotFound:
			m.Status.Message = "no controller is primary"
		}
		update := &p4v1.StreamMessageResponse_Arbitration{Arbitration: m}
		s.clients[n.stream].must(&p4v1.StreamMessageResponse{Update: update})
	}
}

// must queues a message. Without room the stream ends.
func (c *client) must(m *p4v1.StreamMessageResponse) {
	if !c.queue(m) && !c.stuck {
		c.stuck = true
		close(c.slow)
	}
}

// queue reports whether there was room for a message.
func (c *client) queue(m *p4v1.StreamMessageResponse) bool {
	select {
	case c.out <- m:
		return true
	default:
		return false
	}
}

// report tells a controller that a message failed, if there is room.
func (c *client) report(err error, e *p4v1.StreamError) {
	is := status.Convert(err)
	e.CanonicalCode, e.Message = int32(is.Code()), is.Message()
	c.queue(&p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Error{Error: e}})
}

// packetOut hands in a frame, as if it had come in by the port that its metadata names.
func (s *Server) packetOut(c *client, m *p4v1.PacketOut) error {
	if !s.elections.isPrimary(c.number) {
		return status.Error(codes.PermissionDenied, "this controller is not primary, and sends no packets")
	}
	if s.active == nil {
		return status.Error(codes.FailedPrecondition, "the switch has no pipeline: set one")
	}
	port, err := portOf(s.active.state.pipe.out, m.GetMetadata())
	if err != nil {
		return err
	}
	if err := s.active.engine.Put(port, m.GetPayload()); errors.Is(err, p4.ErrGone) {
		return status.Error(codes.Unavailable, err.Error())
	} else if err != nil {
		return invalid("%v", err)
	}
	return nil
}

// portOf reads the metadata of a packet, which are none or the port.
func portOf(want []field, have []*p4v1.PacketMetadata) (int, error) {
	if len(have) != len(want) {
		return 0, invalid("a packet has %d fields of metadata, not %d", len(want), len(have))
	}
	if len(want) == 0 {
		return p4.PortCPU, nil
	}
	if have[0].GetMetadataId() != want[0].id {
		return 0, invalid("the P4Info has no field %d of %s", have[0].GetMetadataId(), packetOut)
	}
	v, err := parse(have[0].GetValue(), want[0].bits)
	return int(v), err
}

// packetIn gives a frame to all primaries.
func (s *Server) packetIn(pipe *pipeline, frame []byte) {
	m, ok := packetOf(pipe.in, frame)
	if !ok {
		return
	}
	for _, stream := range s.elections.primaries() {
		s.clients[stream].queue(&p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Packet{Packet: m}})
	}
}

// packetOf takes the header off a frame; false: it is too short.
func packetOf(header []field, frame []byte) (*p4v1.PacketIn, bool) {
	m := new(p4v1.PacketIn)
	at := 0 // in bits
	for _, f := range header {
		if at+f.bits > 8*len(frame) {
			return nil, false
		}
		var v uint64
		for range f.bits {
			v = v<<1 | uint64(frame[at/8]>>(7-at%8)&1)
			at++
		}
		m.Metadata = append(m.Metadata, &p4v1.PacketMetadata{MetadataId: f.id, Value: format(v)})
	}
	m.Payload = frame[at/8:]
	return m, true
}
