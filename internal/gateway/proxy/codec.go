package proxy

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// frame is a message that is passed on without being decoded.
type frame struct{ data mem.BufferSlice }

// Size is the frame's length.
func (f *frame) Size() int { return f.data.Len() }

func (f *frame) free() {
	if f.data != nil {
		f.data.Free()
		f.data = nil
	}
}

// codec leaves frames alone and gives everything else to the codec of Protocol Buffers, whose name it has on the wire.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal returns the frame's bytes. The transport frees its reference; the frame keeps its own.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		f.data.Ref()
		return f.data, nil
	}
	return c.CodecV2.Marshal(v)
}

// Append implements [grpcserver.Codec].
func (c codec) Append(b []byte, v any) ([]byte, error) {
	f, ok := v.(*frame)
	if !ok {
		return grpcserver.Proto{}.Append(b, v)
	}
	for _, part := range f.data {
		b = append(b, part.ReadOnlyData()...)
	}
	return b, nil
}

// Unmarshal keeps a reference of the bytes, which the caller frees.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		data.Ref()
		f.data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
