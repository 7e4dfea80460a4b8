// Package grpcserver is a gRPC server for calls that are answered in a few microseconds.
//
// One goroutine reads a connection's frames. It can begin the answer to a call itself ([Options].Begin), without a
// goroutine for the call; whoever has the answer appends its frames to the connection's output, and one goroutine
// writes the output of all calls of one moment with one system call. Every other call has a goroutine and a
// [grpc.ServerStream], as with grpc-go.
//
// The framing and HPACK's decoder are those of golang.org/x/net/http2. Output, calls and headers of a connection are
// bounded, so a client that does not read, or that resets its calls as fast as it makes them, costs its own connection
// only.
package grpcserver
