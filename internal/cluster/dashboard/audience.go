package dashboard

import (
	"context"
	"sync"
	"time"
)

// glanceFor is how long nodes and gateways are asked after a document was fetched.
const glanceFor = 10 * time.Second

// audience knows whether anybody looks at the page.
type audience struct {
	mu      sync.Mutex
	streams int           // pages that follow
	until   time.Time     // after which those who fetched a document look no more
	came    chan struct{} // closed when somebody looks again
}

func newAudience() *audience { return &audience{came: make(chan struct{})} }

// enter counts a page that follows until leave is called.
func (a *audience) enter() (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.streams++
	a.wake()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.streams--
	}
}

// glance counts somebody who fetches one document.
func (a *audience) glance(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = now.Add(glanceFor)
	a.wake()
}

// wake ends all waits. a.mu is locked.
func (a *audience) wake() {
	close(a.came)
	a.came = make(chan struct{})
}

// looks reports whether anybody looks, and else returns a channel that is closed when somebody does.
func (a *audience) looks(now time.Time) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.streams > 0 || now.Before(a.until), a.came
}

// await waits until somebody looks. It returns false if ctx ends before.
func (a *audience) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		looks, came := a.looks(time.Now())
		if looks {
			return true
		}
		select {
		case <-came:
		case <-ctx.Done():
		}
	}
	return false
}
