package proxy

import (
	"sync"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// holding is a codec that notes whether a lock is held while it decodes.
type holding struct {
	encoding.CodecV2
	lock *sync.Mutex
	held bool
}

func (h *holding) Unmarshal(mem.BufferSlice, any) error {
	h.held = !h.lock.TryLock()
	if !h.held {
		h.lock.Unlock()
	}
	return nil
}

func TestLargeAnswersAreDecodedInTurn(t *testing.T) {
	for size, want := range map[int]bool{largeAnswer: true, largeAnswer - 1: false} {
		lock := new(sync.Mutex)
		inner := &holding{lock: lock}
		data := mem.BufferSlice{mem.SliceBuffer(make([]byte, size))}
		if err := (codec{inner, lock}).Unmarshal(data, nil); err != nil || inner.held != want || !lock.TryLock() {
			t.Errorf("%d bytes: decoded alone: %v, want %v; error %v; or the lock is still held", size, inner.held, want, err)
		}
	}
}
