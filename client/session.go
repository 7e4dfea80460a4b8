package client

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// session carries one write at a time (W10).
type session struct {
	id  uint64
	seq uint64 // of its last write
}

// sessions holds the idle sessions of a client. The last one used is taken first, so a client never has more sessions
// at the nodes than it had concurrent writes.
type sessions struct {
	mu   sync.Mutex
	rest []*session
}

// take returns a session for one write; its seq is already that of the write.
func (s *sessions) take() *session {
	s.mu.Lock()
	var taken *session
	if n := len(s.rest); n > 0 {
		taken = s.rest[n-1]
		s.rest = s.rest[:n-1]
	}
	s.mu.Unlock()
	if taken == nil {
		taken = &session{id: randomID()}
	}
	taken.seq++
	return taken
}

// release returns a session after a write with a certain outcome. A session that is not released is never used again.
func (s *sessions) release(returned *session) {
	s.mu.Lock()
	s.rest = append(s.rest, returned)
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
