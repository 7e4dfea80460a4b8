package locks

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/recovery"
)

// inside makes calls of etcd's API at this gateway, within the process. They take the path of clients' calls.
type inside struct{ of *Services }

// Invoke implements [grpc.ClientConnInterface].
func (c *inside) Invoke(ctx context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	up, err := c.open(ctx, method)
	if err != nil {
		return err
	}
	defer up.stop()
	if err := up.SendMsg(in); err != nil && !errors.Is(err, io.EOF) { // at EOF the status follows
		return err
	}
	if err := up.CloseSend(); err != nil {
		return err
	}
	err = up.RecvMsg(out)
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Internal, "gateway: a call ended without an answer")
	}
	return err
}

// NewStream implements [grpc.ClientConnInterface]. The stream ends with ctx.
func (c *inside) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.open(ctx, method)
}

func (c *inside) open(ctx context.Context, method string) (*insideClient, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	call := &insideCall{
		codec: c.of.codec, requests: make(chan mem.BufferSlice), answers: make(chan mem.BufferSlice),
		ended: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		call.err = statusOf(recovery.Do(method, func() error { return c.of.Handle(method, &insideServer{call, ctx}) }))
		close(call.ended)
		stop()
	}()
	return &insideClient{insideCall: call, ctx: ctx, stop: stop}, nil
}

// statusOf makes an error the status that a client of a server gets.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}

// insideCall is a call within the process.
type insideCall struct {
	codec             encoding.CodecV2
	requests, answers chan mem.BufferSlice
	ended             chan struct{} // the handler has returned
	err               error         // the handler's; valid after ended
}

// take decodes a message, once.
func (c *insideCall) take(data mem.BufferSlice, m any) error {
	defer data.Free()
	return c.codec.Unmarshal(data, m)
}

// insideClient is the client's end.
type insideClient struct {
	*insideCall
	ctx    context.Context
	stop   context.CancelFunc
	closed sync.Once
}

// SendMsg sends a request.
func (c *insideClient) SendMsg(m any) error {
	data, err := c.codec.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case c.requests <- data:
		return nil
	case <-c.ended:
		err = io.EOF
	case <-c.ctx.Done():
		err = c.over()
	}
	data.Free()
	return err
}

// RecvMsg receives an answer. After the last one it returns the call's status, or [io.EOF].
func (c *insideClient) RecvMsg(m any) error {
	select {
	case data := <-c.answers:
		return c.take(data, m)
	case <-c.ended:
	case <-c.ctx.Done():
		return c.over()
	}
	if c.err != nil {
		return c.err
	}
	return io.EOF
}

// over is the error of a call whose context has ended: the handler's if it returned before that.
func (c *insideClient) over() error {
	select {
	case <-c.ended:
		if c.err != nil {
			return c.err
		}
		return io.EOF
	default:
		return status.FromContextError(c.ctx.Err()).Err()
	}
}

// CloseSend says that no request follows.
func (c *insideClient) CloseSend() error {
	c.closed.Do(func() { close(c.requests) })
	return nil
}

// Header, Trailer and Context implement [grpc.ClientStream]. No metadata is returned.
func (c *insideClient) Header() (metadata.MD, error) { return nil, nil }

// Trailer is empty.
func (c *insideClient) Trailer() metadata.MD { return nil }

// Context is the call's.
func (c *insideClient) Context() context.Context { return c.ctx }

// insideServer is the handler's end.
type insideServer struct {
	*insideCall
	ctx context.Context
}

// RecvMsg receives a request, or [io.EOF] after the last one.
func (s *insideServer) RecvMsg(m any) error {
	select {
	case data, ok := <-s.requests:
		if !ok {
			return io.EOF
		}
		return s.take(data, m)
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// SendMsg sends an answer.
func (s *insideServer) SendMsg(m any) error {
	data, err := s.codec.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case s.answers <- data:
		return nil
	case <-s.ctx.Done():
		data.Free()
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// SetHeader, SendHeader and SetTrailer drop metadata, which nobody reads.
func (s *insideServer) SetHeader(metadata.MD) error { return nil }

// SendHeader drops metadata.
func (s *insideServer) SendHeader(metadata.MD) error { return nil }

// SetTrailer drops metadata.
func (s *insideServer) SetTrailer(metadata.MD) {}

// Context is the call's.
func (s *insideServer) Context() context.Context { return s.ctx }
