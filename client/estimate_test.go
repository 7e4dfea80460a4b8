package client

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

func TestEstimate(t *testing.T) {
	const limit = 50 * time.Millisecond
	var e estimate
	if got := e.timeout(minAttempt, limit); got != limit {
		t.Errorf("never measured: %v", got)
	}
	for range 100 {
		e.sample(20 * time.Microsecond)
	}
	if got := e.timeout(minAttempt, limit); got != minAttempt {
		t.Errorf("always 20 us: %v", got)
	}
	if got := e.timeout(minAttempt, time.Millisecond); got != time.Millisecond {
		t.Errorf("the user wants less: %v", got)
	}
	for range 100 {
		e.sample(10 * time.Millisecond)
	}
	if got := e.timeout(minAttempt, limit); got < 10*time.Millisecond || got > 11*time.Millisecond {
		t.Errorf("always 10 ms: %v", got)
	}
	for i := range 100 {
		e.sample(time.Duration(5+10*(i%2)) * time.Millisecond)
	}
	if got := e.timeout(minAttempt, limit); got < 25*time.Millisecond || got > 40*time.Millisecond {
		t.Errorf("5 and 15 ms: %v", got)
	}
	e.sample(time.Hour)
	if got := e.timeout(minAttempt, limit); got != limit {
		t.Errorf("after an hour: %v", got)
	}
}

// Once a node's answers were measured, a client does not wait for the longest time if the node or the head fails.
func TestAttemptsAdapt(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	c := newClient(t, Options{Cluster: w.cluster, Attempt: time.Hour})
	for _, name := range []string{"n1", "n2", "n3"} {
		if _, err := c.Put(soon(t), "k", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(soon(t), "k", From(Named(name))); err != nil {
			t.Fatal(err)
		}
	}
	w.planes[1].Close()
	for _, from := range []ReadFrom{Nearest, Spread} {
		for range 10 {
			if r, err := c.Get(soon(t), "k", From(from)); err != nil || r.Node == "n2" {
				t.Fatalf("%v: %+v, %v", from, r, err)
			}
			if o := c.GetMany(soon(t), []string{"k"}, From(from))[0]; o.Err != nil || o.Node == "n2" {
				t.Fatalf("%v: %+v", from, o)
			}
		}
	}
	k := call{task: task{start: &start{client: c}, kind: wire.OpPut, route: c.view.Load().route(0)}}
	k.recent.add(attempt{to: k.route.members[0]})
	before := k.patience()
	for misses, times := range []time.Duration{1, 1, 2, 4} { // the first may be a lost packet
		if k.recent.misses = int32(misses); k.patience() != times*before || before > time.Minute {
			t.Errorf("a write waits for %v, after %d misses for %v", before, misses, k.patience())
		}
	}
}

// Missing answers shrink the window of outstanding operations; answers enlarge it again.
func TestCongestion(t *testing.T) {
	now := time.Now()
	g := newCongestion(256)
	for i := range 1000 { // of one moment
		g.missed(now.Add(time.Duration(i)*time.Microsecond), 50*time.Millisecond)
	}
	if !g.allows(178) || g.allows(179) {
		t.Errorf("after one loss %v are allowed", g.allowed)
	}
	for i := range 20 {
		g.missed(now.Add(time.Duration(i)*50*time.Millisecond), 50*time.Millisecond)
	}
	if !g.allows(minInFlight-1) || g.allows(minInFlight) {
		t.Errorf("after a second without answers %v are allowed", g.allowed)
	}
	for range 4000 {
		g.answered()
	}
	if !g.allows(255) || g.allows(256) {
		t.Errorf("after many answers %v are allowed", g.allowed)
	}
	if few := newCongestion(2); !few.allows(1) || few.allows(2) {
		t.Errorf("a window of two: %v", few.allowed)
	}
}
