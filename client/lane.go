package client

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// lane is a session in which one write at a time is under way (W10).
type lane struct {
	session uint64
	seq     uint64 // of its last write
}

// lanes are those at rest. The one that rested last is used first, so that a client has no more sessions at the
// nodes than it ever had writes at once.
type lanes struct {
	mu   sync.Mutex
	rest []*lane
}

// take gives a lane to one write, with the write's seq already counted.
func (l *lanes) take() *lane {
	l.mu.Lock()
	var taken *lane
	if n := len(l.rest); n > 0 {
		taken = l.rest[n-1]
		l.rest = l.rest[:n-1]
	}
	l.mu.Unlock()
	if taken == nil {
		taken = &lane{session: randomID()}
	}
	taken.seq++
	return taken
}

// release puts a lane to rest after a write whose outcome is certain. A lane that is not released is never used again.
func (l *lanes) release(returned *lane) {
	l.mu.Lock()
	l.rest = append(l.rest, returned)
	l.mu.Unlock()
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
