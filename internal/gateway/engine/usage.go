package engine

import (
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

const (
	// maxCounted is how many keys the monitor counts: more than find room, since a key that it forgets loses its place.
	maxCounted = 4096
	// halfLife is after how many seconds a read counts half.
	halfLife = 7
)

// usage counts reads and writes of keys at this gateway.
type usage struct {
	mu      sync.Mutex
	began   time.Time
	monitor *placement.Monitor
}

func (u *usage) init() {
	u.began, u.monitor = time.Now(), placement.NewMonitor(maxCounted, halfLife)
}

func (u *usage) now() float64 { return time.Since(u.began).Seconds() }

// reads counts n reads of one moment.
func (u *usage) reads(key string, bytes, n int) {
	u.mu.Lock()
	for now := u.now(); n > 0; n-- {
		u.monitor.Read(key, bytes, now)
	}
	u.mu.Unlock()
}

// fits counts a read that etcd answered with what can be cached.
func (u *usage) fits(key string, bytes int) {
	u.mu.Lock()
	u.monitor.Read(key, bytes, u.now())
	u.monitor.Fits(key)
	u.mu.Unlock()
}

// hits counts n reads of one moment that the chain answered.
func (u *usage) hits(key string, bytes, n int) {
	u.mu.Lock()
	for now := u.now(); n > 0; n-- {
		u.monitor.Hit(key, bytes, now)
	}
	u.mu.Unlock()
}

func (u *usage) write(key string, bytes int, unfit bool) {
	u.mu.Lock()
	u.monitor.Write(key, bytes, unfit, u.now())
	u.mu.Unlock()
}

// others counts what others did with a key's object since a moment.
func (u *usage) others(key string, did placement.Use, bytes int, since float64) {
	u.mu.Lock()
	u.monitor.Others(key, did, bytes, since, u.now())
	u.mu.Unlock()
}

// wrote counts what a client's request may write.
func (u *usage) wrote(w *core.Write, fits bool) {
	u.write(w.Key, len(w.Value), w.Leased || !fits)
}

func (u *usage) list() []placement.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.monitor.Usages(u.now())
}
