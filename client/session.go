package client

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// session carries one write at a time (W10).
type session struct {
	id  uint64
	seq uint64 // of its last write
	age uint64 // of its client when it was drawn: see [sessions]
}

// sessions holds the idle sessions of a client. The last one used is taken first, so a client never has more sessions
// at the nodes than it had concurrent writes.
//
// When the wall clock and the boot clock moved apart, the machine may have been paused, or this client may be a copy of
// another that still runs, such as a virtual machine from a snapshot. Two clients must not share a session, so new ones
// are drawn then: sessions of an earlier age are not used again.
type sessions struct {
	mu    sync.Mutex
	rest  []*session
	age   uint64
	apart time.Duration // of the wall clock from the boot clock, at the last look
}

// maxApart is by how much the clocks of a machine that runs may move apart between two writes. A wall clock that is
// slewed or set by more costs new sessions, and nothing else.
const maxApart = time.Second

// take returns a session for one write; its seq is already that of the write. apart is how far the wall clock is from
// the boot clock.
func (s *sessions) take(apart time.Duration) *session {
	s.mu.Lock()
	if moved := apart - s.apart; moved > maxApart || moved < -maxApart {
		s.rest = nil
		s.age++
	}
	s.apart = apart
	age := s.age
	var taken *session
	if n := len(s.rest); n > 0 {
		taken = s.rest[n-1]
		s.rest = s.rest[:n-1]
	}
	s.mu.Unlock()
	if taken == nil {
		taken = &session{id: randomID(), age: age}
	}
	taken.seq++
	return taken
}

// release returns a session after a write with a certain outcome. A session that is not released is never used again.
func (s *sessions) release(returned *session) {
	s.mu.Lock()
	if returned.age == s.age {
		s.rest = append(s.rest, returned)
	}
	s.mu.Unlock()
}

// randomID is 64 random bits, not all zero.
func randomID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}
