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

	shard uint16
}

// sessions holds the idle sessions of a client, by shard. A node has an entry for every shard in which a session was
// used, so each is used in one shard only: a client has as many entries at the nodes as it had concurrent writes in each
// shard, not that many in every shard. The last one used is taken first.
//
// When the wall clock and the boot clock moved apart, the machine may have been paused, or this client may be a copy of
// another that still runs, such as a virtual machine from a snapshot. Two clients must not share a session, so new ones
// are drawn then: sessions of an earlier age are not used again.
type sessions struct {
	mu sync.Mutex // guards all below

	// idle has sessions of this age only, each once, under its own shard. A session is idle, or one call's, or lost.
	idle  map[uint16][]*session
	age   uint64        // only rises
	apart time.Duration // of the wall clock from the boot clock, at the last look
}

// maxApart is by how much the clocks of a machine that runs may move apart between two writes. A wall clock that is
// slewed or set by more costs new sessions, and nothing else.
const maxApart = time.Second

// take returns a session for one write in a shard; its seq is already that of the write. apart is how far the wall clock is from
// the boot clock.
func (s *sessions) take(shard uint16, apart time.Duration) *session {
	s.mu.Lock()
	if moved := apart - s.apart; moved > maxApart || moved < -maxApart {
		s.idle = nil
		s.age++
	}
	s.apart = apart
	age := s.age
	var taken *session
	if idle := s.idle[shard]; len(idle) > 0 {
		taken = idle[len(idle)-1]
		s.idle[shard] = idle[:len(idle)-1]
	}
	s.mu.Unlock()
	if taken == nil {
		taken = &session{id: randomID(), age: age, shard: shard}
	}
	taken.seq++
	return taken
}

// release returns a session after a write with a certain outcome. A session that is not released is never used again.
func (s *sessions) release(returned *session) {
	s.mu.Lock()
	if s.idle == nil {
		s.idle = make(map[uint16][]*session)
	}
	if returned.age == s.age {
		s.idle[returned.shard] = append(s.idle[returned.shard], returned)
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
