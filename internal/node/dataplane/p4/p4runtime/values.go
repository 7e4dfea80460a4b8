package p4runtime

import (
	"encoding/binary"
	"math/bits"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxBits is the width of the widest field that the engine has.
const maxBits = 64

// parse reads a binary string as a field of so many bits.
func parse(b []byte, width int) (uint64, error) {
	if len(b) == 0 {
		return 0, status.Error(codes.InvalidArgument, "a value is empty")
	}
	var v uint64
	for i, x := range b {
		if i >= maxBits/8 && v>>(maxBits-8) != 0 {
			return 0, status.Errorf(codes.InvalidArgument, "a value of %d bytes does not fit in %d bits", len(b), width)
		}
		v = v<<8 | uint64(x)
	}
	if bits.Len64(v) > width {
		return 0, status.Errorf(codes.InvalidArgument, "the value %#x does not fit in %d bits", v, width)
	}
	return v, nil
}

// format is the shortest binary string of a value.
func format(v uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, v)
	for len(b) > 1 && b[0] == 0 {
		b = b[1:]
	}
	return b
}
