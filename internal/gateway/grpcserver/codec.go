package grpcserver

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Codec encodes and decodes messages.
type Codec interface {
	// Append appends an encoded message, which has not changed since its size was measured.
	Append(b []byte, m any) ([]byte, error)
	Unmarshal(data mem.BufferSlice, m any) error
}

// Proto is the codec of Protocol Buffers.
type Proto struct{}

// Unmade is an answer that is made when it is encoded: [Call.SendMsg] counts it before.
type Unmade interface {
	Size() int // of the encoded answer
	Append(b []byte) ([]byte, error)
}

// Append implements [Codec].
func (Proto) Append(b []byte, m any) ([]byte, error) {
	if m, is := m.(Unmade); is {
		return m.Append(b)
	}
	message, is := m.(proto.Message)
	if !is {
		return b, fmt.Errorf("%T is no message of Protocol Buffers", m)
	}
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, message)
}

// Unmarshal implements [Codec].
func (Proto) Unmarshal(data mem.BufferSlice, m any) error {
	return encoding.GetCodecV2(grpcproto.Name).Unmarshal(data, m)
}
