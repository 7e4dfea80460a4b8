package rpc

import (
	"google.golang.org/grpc/mem"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// codec counts what it encodes and decodes, as that of etcd's own gRPC server.
type codec struct{ grpcserver.Proto }

// Append encodes an answer.
func (c codec) Append(b []byte, m any) ([]byte, error) {
	before := len(b)
	b, err := c.Proto.Append(b, m)
	sentBytes.Add(float64(len(b) - before))
	return b, err
}

// Unmarshal decodes a request.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	receivedBytes.Add(float64(data.Len()))
	return c.Proto.Unmarshal(data, v)
}
