package peer

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/keyspacev1"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// Server answers the calls of other gateways. It is registered as [keyspacev1.Peers_ServiceDesc].
type Server struct {
	keyspacev1.UnimplementedPeersServer
	keyspace Keyspace
	self     uint64
	handler  driver.Handler
}

// NewServer makes the server of the gateway whose disks have a name.
func NewServer(k Keyspace, self uint64, h driver.Handler) *Server {
	return &Server{keyspace: k, self: self, handler: h}
}

// Report is of the API.
func (s *Server) Report(stream grpc.ClientStreamingServer[keyspacev1.ReportRequest, keyspacev1.ReportResponse]) error {
	if err := s.keyspace.check(stream.Context(), s.self); err != nil {
		return err
	}
	for {
		in, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return stream.SendAndClose(&keyspacev1.ReportResponse{})
		case err != nil:
			return err
		}
		if e := in.GetEntries(); len(e.GetPayloads()) > 0 {
			s.handler.Pushed(decodeDisk(in.GetDisk()), decodePushed(e))
		}
		if in.GetEra() > 0 {
			s.handler.Reported(decodeDisk(in.GetDisk()), core.Report{
				Era: in.GetEra(), Index: in.GetIndex(), Log: in.GetLog(), Counted: in.GetCounted(),
			})
		}
	}
}

// Ask is of the API.
func (s *Server) Ask(ctx context.Context, in *keyspacev1.AskRequest) (*keyspacev1.Answer, error) {
	if err := s.keyspace.check(ctx, s.self); err != nil {
		return nil, err
	}
	d, a, err := s.handler.Ask(ctx, in.GetEra())
	if err != nil {
		return nil, statusOf(err)
	}
	return encodeAnswer(d, a), nil
}

// Install is of the API.
func (s *Server) Install(stream grpc.ClientStreamingServer[keyspacev1.InstallRequest, keyspacev1.Answer]) error {
	if err := s.keyspace.check(stream.Context(), s.self); err != nil {
		return err
	}
	first, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF) || err == nil && first.GetBase() == nil:
		return status.Error(codes.InvalidArgument, "there is no state to install")
	case err != nil:
		return err
	}
	content := &pieces{left: first.GetData(), next: func() ([]byte, error) {
		in, err := stream.Recv()
		return in.GetData(), err
	}}
	d, a, err := s.handler.Install(stream.Context(), decodePosition(first.GetBase()), content)
	if err != nil {
		return statusOf(err)
	}
	return stream.SendAndClose(encodeAnswer(d, a))
}

// Take is of the API.
func (s *Server) Take(_ *keyspacev1.TakeRequest, stream grpc.ServerStreamingServer[keyspacev1.Content]) error {
	if err := s.keyspace.check(stream.Context(), s.self); err != nil {
		return err
	}
	c, err := s.handler.Take(stream.Context())
	return send(c, err, stream)
}

// Fetch is of the API.
func (s *Server) Fetch(in *keyspacev1.FetchRequest, stream grpc.ServerStreamingServer[keyspacev1.Content]) error {
	if err := s.keyspace.check(stream.Context(), s.self); err != nil {
		return err
	}
	c, err := s.handler.Fetch(stream.Context(), in.GetEra(), in.GetIndex())
	return send(c, err, stream)
}

// send sends a content.
func send(c driver.Content, err error, stream grpc.ServerStreamingServer[keyspacev1.Content]) error {
	if err != nil {
		return statusOf(err)
	}
	defer c.Data.Close()
	message := &keyspacev1.Content{Last: encodePosition(c.Last)}
	if err := stream.Send(message); err != nil {
		return err
	}
	return inPieces(c.Data, func(piece []byte) error { return stream.Send(&keyspacev1.Content{Data: piece}) })
}
