package grpcserver

import (
	"math/bits"
	"sync"
)

// Messages and output that wait take buffers from a pool. Those of gRPC would not do: for each message of more than 32 KiB
// its pool clears a mebibyte.

// Buffers have a power of two of bytes, from 1<<leastBuffer to 1<<mostBuffer. Longer ones are not used again.
const (
	leastBuffer = 10
	mostBuffer  = 20
)

var buffers [mostBuffer - leastBuffer + 1]sync.Pool

// newBuffer returns an empty buffer with capacity for n bytes.
func newBuffer(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), leastBuffer)
	if class > mostBuffer {
		return make([]byte, 0, n)
	}
	if b, ok := buffers[class-leastBuffer].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// free gives a buffer back that nobody uses any more.
func free(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if class < leastBuffer || class > mostBuffer {
		return
	}
	b = b[:0]
	buffers[class-leastBuffer].Put(&b)
}

// grow makes capacity for n bytes more in a buffer that nobody else uses.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := append(newBuffer(max(2*cap(b), len(b)+n)), b...)
	free(b)
	return grown
}
