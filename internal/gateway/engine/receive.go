package engine

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
)

// Receive has an answer of etcd received that has begun to arrive. It calls receive once, when the answer may take memory.
type Receive func(ctx context.Context, answer any, receive func() error) error

type receiveKey struct{}

// WithReceive returns a context for calls of etcd whose answers are of unknown size. [Invoke] has them received by r.
func WithReceive(ctx context.Context, r Receive) context.Context {
	return context.WithValue(ctx, receiveKey{}, r)
}

// receiveOf returns what [WithReceive] has added to a context; nil: nothing.
func receiveOf(ctx context.Context) Receive {
	r, _ := ctx.Value(receiveKey{}).(Receive)
	return r
}

// once describes a call with one request and one answer.
var once = new(grpc.StreamDesc)

// Invoke has etcd execute a call with one request and one answer. Until [Receive] takes the answer, etcd sends no more of it
// than fits in the window of the call.
func Invoke(ctx context.Context, conn grpc.ClientConnInterface, method string, in, out any, o ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := conn.NewStream(ctx, once, method, o...)
	if err != nil {
		return err
	}
	if err := up.SendMsg(in); err != nil && !errors.Is(err, io.EOF) { // io.EOF: the status comes with the answer
		return err
	}
	receive := func() error { return up.RecvMsg(out) }
	r := receiveOf(ctx)
	if r == nil {
		return receive()
	}
	if _, err := up.Header(); err != nil {
		return receive() // it returns the status
	}
	return r(ctx, out, receive)
}

// receiving is a connection whose calls are those of [Invoke] where the context says how answers are received.
type receiving struct{ grpc.ClientConnInterface }

// Invoke implements [grpc.ClientConnInterface].
func (c receiving) Invoke(ctx context.Context, method string, in, out any, o ...grpc.CallOption) error {
	if receiveOf(ctx) == nil {
		return c.ClientConnInterface.Invoke(ctx, method, in, out, o...)
	}
	return Invoke(ctx, c.ClientConnInterface, method, in, out, o...)
}
