package grpcserver

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestBuffers requires that a buffer holds what it is for, and not for much more.
func TestBuffers(t *testing.T) {
	for n := 1; n <= 2<<mostBuffer; n = n*3/2 + 1 {
		b := newBuffer(n)
		if len(b) != 0 || cap(b) < n || cap(b) >= max(4*n, 2<<leastBuffer) {
			t.Errorf("for %d bytes: length %d, capacity %d", n, len(b), cap(b))
		}
		free(b)
		grown := grow(append(newBuffer(n), "kept"...), 3*n)
		if string(grown) != "kept" || cap(grown)-len(grown) < 3*n {
			t.Errorf("a buffer for %d bytes has become %q, with %d bytes of capacity more", n, grown, cap(grown)-len(grown))
		}
		free(grown)
	}
	for _, odd := range [][]byte{nil, make([]byte, 3), make([]byte, 0, 3<<leastBuffer), make([]byte, 0, 4<<mostBuffer)} {
		free(odd) // none of them must be found where a longer one is looked for
	}
	for n := 1; n <= 1<<mostBuffer; n *= 2 {
		if b := newBuffer(n); cap(b) < n {
			t.Errorf("for %d bytes: capacity %d", n, cap(b))
		}
	}
}

// TestAnswersTakeLittleMemory requires that encoded answers of a size that is not one of a pool's cost about what they are
// long. With gRPC's pool each would take a mebibyte.
func TestAnswersTakeLittleMemory(t *testing.T) {
	const length = 40 << 10
	s := &Call{request: new(request), conn: &conn{server: New(Options{Codec: Proto{}})}}
	data, err := s.encode(wrapperspb.Bytes(make([]byte, length)))
	if err != nil || len(data) < length || cap(data) >= 4*length {
		t.Errorf("%d bytes with capacity %d, error %v", len(data), cap(data), err)
	}
}

// TestChangedAnswersAreMeasuredAgain: a message that a handler sends again, after it has changed it, is encoded as it is.
func TestChangedAnswersAreMeasuredAgain(t *testing.T) {
	s := &Call{request: new(request), conn: &conn{server: New(Options{Codec: Proto{}})}}
	answer := &structpb.ListValue{}
	for range 3 {
		answer.Values = append(answer.Values, structpb.NewStringValue(strings.Repeat("v", 1000)))
		data, err := s.encode(answer)
		got := new(structpb.ListValue)
		if err == nil {
			err = proto.Unmarshal(data[prefixBytes:], got)
		}
		if err != nil || !proto.Equal(got, answer) {
			t.Fatalf("%d values of %d, %v", len(got.GetValues()), len(answer.Values), err)
		}
	}
}
