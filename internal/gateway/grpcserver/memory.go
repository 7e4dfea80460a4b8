package grpcserver

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Memory bounds what requests that are received and answers that wait take, of all connections of a server.
//
// Up to half of the bound every connection gets what it needs. Beyond it, answers of connections that hold more than
// [fairBytes] wait. If that does not help for [patience], and at the bound at once, the connection that has held most
// for the longest time ends. So a client that reads its answers and sends its requests goes on.
type Memory struct {
	bound int

	mu     sync.Mutex
	used   int
	by     map[*account]bool
	freed  chan struct{} // closed when memory is freed
	logged time.Time
}

// DefaultMemory is the default bound.
const DefaultMemory = 512 << 20

const (
	// fairBytes is what each connection may hold while the memory is scarce.
	fairBytes = 1 << 20
	patience  = 250 * time.Millisecond
	// chargeStep is how much a connection holds or frees before it tells.
	chargeStep = 16 << 10
	// logEvery bounds how often ended connections are logged.
	logEvery = time.Minute
)

// NewMemory makes a bound of bytes; 0: [DefaultMemory].
func NewMemory(bytes int) *Memory {
	if bytes == 0 {
		bytes = DefaultMemory
	}
	return &Memory{bound: bytes, by: make(map[*account]bool), freed: make(chan struct{})}
}

// account is what one connection holds. The memory's mu guards it.
type account struct {
	of    *Memory
	name  string
	end   func() // ends the connection; nil: it is never ended
	used  int
	since time.Time // since when it holds more than fairBytes, without having freed as much as it held then
	freed int       // since then
	held  int       // then
	ended bool
}

// Account counts what a request takes of a memory, beside those of connections.
type Account struct{ a *account }

// Join makes an account. end is called, on a goroutine of its own, if the request has to end for want of memory.
func (m *Memory) Join(name string, end func()) *Account { return &Account{m.join(name, end)} }

// Add counts n bytes more, or fewer.
func (a *Account) Add(n int) { a.a.add(n) }

// Leave gives up all that is counted.
func (a *Account) Leave() { a.a.leave() }

func (m *Memory) join(name string, end func()) *account { return &account{of: m, name: name, end: end} }

// add counts n bytes more, or fewer.
func (a *account) add(n int) {
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.ended {
		return
	}
	m.count(a, n)
	if m.used > m.bound {
		m.evict(m.bound / 2)
	}
}

// count counts. The caller holds mu.
func (m *Memory) count(a *account, n int) {
	before := a.used
	a.used += n
	m.used += n
	if a.used == 0 {
		delete(m.by, a)
	} else {
		m.by[a] = true
	}
	a.freed += max(-n, 0)
	if before <= fairBytes && a.used > fairBytes || n < 0 && a.freed >= a.held {
		a.since, a.freed, a.held = time.Now(), 0, a.used
	}
	if n < 0 && m.used <= m.bound/2 && m.used-n > m.bound/2 {
		close(m.freed)
		m.freed = make(chan struct{})
	}
}

// leave gives up all that the connection holds.
func (a *account) leave() {
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.ended {
		m.count(a, -a.used)
		a.ended = true
	}
}

// wait waits until an answer of n bytes may be made, and counts it; 0: the size is not known, and nothing is counted. It
// returns false if the connection has ended, for want of memory or because ctx ended.
func (a *account) wait(ctx context.Context, n int) bool {
	for {
		taken, freed := a.take(n)
		if taken {
			return true
		}
		timer := time.NewTimer(patience)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-freed:
			timer.Stop()
		case <-timer.C:
			if a.insist(n, freed) {
				return !a.hasEnded()
			}
		}
	}
}

// take counts n bytes if an answer of this size may be made now. Otherwise freed tells when to try again.
func (a *account) take(n int) (taken bool, freed <-chan struct{}) {
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.used > fairBytes && m.used > m.bound/2 || n > 0 && m.used+n > m.largest() {
		return false, m.freed
	}
	if !a.ended && n > 0 {
		m.count(a, n)
	}
	return true, nil
}

// insist ends connections when patience did not help since a wait for freed began. It counts n bytes if only the size of
// the answer is in the way: then the connection that waits may be the one that ends.
func (a *account) insist(n int, freed <-chan struct{}) (taken bool) {
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.freed != freed:
		return false
	case m.used > m.bound/2:
		m.evict(m.bound / 2)
		return false
	case !a.ended:
		if m.count(a, n); m.used > m.bound {
			m.evict(m.bound / 2)
		}
	}
	return true
}

// largest returns the size of the largest answer that may be made. The rest of the bound is for requests and output.
func (m *Memory) largest() int { return m.bound - m.bound/8 }

func (a *account) hasEnded() bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	return a.ended
}

// evict ends the connections that have held most for the longest time until no more than a number of bytes are used. The
// caller holds mu.
func (m *Memory) evict(until int) {
	now := time.Now()
	for m.used > until {
		var worst *account
		most := 0.0
		for a := range m.by {
			if a.end == nil || a.used <= chargeStep {
				continue
			}
			score := float64(a.used)
			if a.used > fairBytes {
				score *= 1 + now.Sub(a.since).Seconds()
			}
			if score > most {
				worst, most = a, score
			}
		}
		if worst == nil {
			return
		}
		if now.Sub(m.logged) >= logEvery {
			m.logged = now
			slog.Warn("a connection ends: it holds most of the memory for requests and answers, and that is used up",
				"client", worst.name, "bytes", worst.used, "of", m.bound)
		}
		m.count(worst, -worst.used)
		worst.ended = true
		go worst.end()
	}
}
