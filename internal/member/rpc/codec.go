package rpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec counts what it encodes and decodes, as that of etcd's own gRPC server.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal encodes an answer.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	data, err := c.CodecV2.Marshal(v)
	sentBytes.Add(float64(data.Len()))
	return data, err
}

// Unmarshal decodes a request.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	receivedBytes.Add(float64(data.Len()))
	return c.CodecV2.Unmarshal(data, v)
}
