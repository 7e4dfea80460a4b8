package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	nodes := startCluster(t, 3, 4)
	one, other := newClient(t, Options{Cluster: nodes.cluster}), newClient(t, Options{Cluster: nodes.cluster})
	ctx := soon(t)
	held, err := one.Lock(ctx, "l", LockOptions{Note: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if held.Left() <= 0 || held.Err() != nil {
		t.Errorf("just taken: %v left, %v", held.Left(), held.Err())
	}
	locked := new(LockedError)
	if _, err := other.TryLock(ctx, "l", LockOptions{}); !errors.As(err, &locked) || locked.Note != "one" ||
		!errors.Is(err, ErrLocked) {
		t.Errorf("the second: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := other.Lock(short, "l", LockOptions{}); !errors.Is(err, ErrLocked) || !errors.Is(err, ErrTimeout) {
		t.Errorf("who waits in vain: %v", err)
	}
	if err := held.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	if !errors.Is(held.Err(), ErrUnlocked) || held.Left() > 0 || held.Unlock(ctx) != nil {
		t.Errorf("unlocked: %v, %v left", held.Err(), held.Left())
	}
	next, err := other.TryLock(ctx, "l", LockOptions{})
	if err != nil || next.Token() <= held.Token() {
		t.Fatalf("the next: %v, token %d after %d", err, next.Token(), held.Token())
	}
	if err := next.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

func TestLockArguments(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	for _, o := range []LockOptions{{TTL: time.Microsecond}, {TTL: time.Second, Grace: time.Second}, {Grace: -1},
		{Note: string(make([]byte, 257))}} {
		if _, err := c.Lock(ctx, "l", o); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, value := range []string{"", "word", "{}", `{"lock":2}`} {
		if _, err := c.Put(ctx, lockKey("l"), []byte(value)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lock(ctx, "l", LockOptions{}); !errors.Is(err, ErrNotLock) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// A lock that is not renewed ends at its holder before another can have it, and only then.
func TestLockExpires(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	gone, c, ctx := newClient(t, Options{Cluster: nodes.cluster}), newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	held, err := gone.Lock(ctx, "l", LockOptions{TTL: minLockTTL})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close() // nothing of it gets through any more
	next, err := c.Lock(ctx, "l", LockOptions{})
	taken := bootTime()
	if err != nil || next.Token() <= held.Token() {
		t.Fatalf("token %d after %d: %v", next.Token(), held.Token(), err)
	}
	<-held.Done()
	if !errors.Is(held.Err(), ErrLockLost) || !errors.Is(held.Unlock(ctx), ErrLockLost) || held.until >= taken {
		t.Errorf("the first ended at %v, the second began before %v: %v", held.until, taken, held.Err())
	}
	if err := next.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// TryLock takes the lock of a holder that is gone, once the client has seen its record unchanged for its time to
// live, and never that of one that lives.
func TestTryLockTakesOver(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	gone, c, ctx := newClient(t, Options{Cluster: nodes.cluster}), newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	held, err := gone.Lock(ctx, "l", LockOptions{TTL: time.Second, Note: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	try := func() (*Lock, *LockedError) {
		t.Helper()
		l, err := c.TryLock(ctx, "l", LockOptions{})
		locked := new(LockedError)
		if err != nil && !errors.As(err, &locked) {
			t.Fatal(err)
		}
		return l, locked
	}
	var mu sync.Mutex
	ahead := time.Duration(0)
	c.bootTime = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return bootTime() + ahead
	}
	if l, locked := try(); l != nil || locked.Note != "gone" || locked.Alive ||
		locked.Left > time.Second || locked.Left <= 0 {
		t.Fatalf("the first look: %+v", locked)
	}
	for {
		if l, locked := try(); l != nil {
			t.Fatal("the lock of a living holder was taken")
		} else if locked.Alive {
			break
		}
	}
	gone.Close() // nothing of it gets through any more
	<-held.Done()
	try()
	mu.Lock()
	ahead = 2 * time.Second // of silence
	mu.Unlock()
	l, locked := try()
	if l == nil || l.Token() <= held.Token() {
		t.Fatalf("the lock of a holder that is gone: %+v", locked)
	}
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if len(c.watches.byName) != 0 {
		t.Errorf("%d locks are remembered", len(c.watches.byName))
	}
}

// Locking in a cluster that does not answer fails: at once, or when the deadline is reached.
func TestLockOutOfReach(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	c := newClient(t, Options{Cluster: nodes.cluster, Timeout: 50 * time.Millisecond})
	if _, err := c.Lock(soon(t), "held", LockOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock(soon(t), "held", LockOptions{}); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	for _, p := range nodes.planes {
		p.Close()
	}
	for _, name := range []string{"free", "held"} {
		_, err := c.Lock(context.Background(), name, LockOptions{})
		if !errors.Is(err, ErrTimeout) || errors.Is(err, ErrLocked) != (name == "held") {
			t.Errorf("%s: %v", name, err)
		}
		short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := c.Lock(short, name, LockOptions{}); !errors.Is(err, ErrTimeout) {
			t.Errorf("%s, with a deadline: %v", name, err)
		}
	}
}

// A holder that is renewed keeps its lock for longer than twice its time to live, which is long enough for a machine that runs
// this process late: with a second, a holder on a busy machine lost the lock, and had to.
func TestLockIsRenewed(t *testing.T) {
	const ttl = 4 * time.Second
	w := newNetwork(t, 3, testNodeOptions(1))
	resync(t, w.planes)
	c, other := newClient(t, Options{Cluster: w.cluster}), newClient(t, Options{Cluster: w.cluster})
	ctx := soon(t)
	held, err := c.Lock(ctx, "l", LockOptions{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	w.set(faults{loss: 0.05, duplicate: 0.05, delay: 0.1, longest: 20 * time.Millisecond})
	short, cancel := context.WithTimeout(ctx, 2*ttl+ttl/4)
	defer cancel()
	if _, err := other.Lock(short, "l", LockOptions{}); !errors.Is(err, ErrLocked) {
		t.Fatalf("the lock went to another: %v", err)
	}
	w.set(faults{})
	if err := held.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// A holder that slept, or whose record another client removed, has lost the lock.
func TestLockIsLost(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	for name, lose := range map[string]func(c *Client, slept func()){
		"slept":   func(_ *Client, slept func()) { slept() },
		"removed": func(c *Client, _ func()) { c.Delete(context.Background(), lockKey("l")) },
		"taken": func(c *Client, _ func()) {
			c.Put(context.Background(), lockKey("l"), lockRecord{Lock: lockFormat, Owner: "x"}.encode())
		},
	} {
		c := newClient(t, Options{Cluster: nodes.cluster})
		var mu sync.Mutex
		ahead := time.Duration(0)
		c.bootTime = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return bootTime() + ahead
		}
		held, err := c.Lock(soon(t), "l", LockOptions{TTL: minLockTTL})
		if err != nil {
			t.Fatal(err)
		}
		lose(c, func() {
			mu.Lock()
			defer mu.Unlock()
			ahead = time.Hour
		})
		<-held.Done()
		if !errors.Is(held.Err(), ErrLockLost) || held.Left() > 0 {
			t.Errorf("%s: %v, %v left", name, held.Err(), held.Left())
		}
		if _, err := c.Delete(soon(t), lockKey("l")); err != nil {
			t.Fatal(err)
		}
	}
}

// held is the time for which one contender had the lock.
type held struct {
	from, until time.Duration // boot time: from after it was told to before it let go
	token       uint64
}

// With many clients, a bad network and holders that hang, two clients never hold the lock at once, and tokens grow in the
// order of the holders.
func TestMutualExclusion(t *testing.T) {
	const contenders, turns = 6, 4
	w := newNetwork(t, 3, testNodeOptions(1))
	w.set(faults{loss: 0.1, duplicate: 0.1, delay: 0.1, longest: 20 * time.Millisecond})
	resync(t, w.planes)
	var mu sync.Mutex
	var history []held
	var group sync.WaitGroup
	for i := range contenders {
		group.Go(func() {
			for turn := range turns {
				one := contend(t, w, (i+turn)%5 == 0)
				mu.Lock()
				history = append(history, one)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if len(history) != contenders*turns {
		t.Errorf("%d turns", len(history))
	}
	// A client that did not run until its lease was over never held the lock.
	history = slices.DeleteFunc(history, func(h held) bool { return h.until <= h.from })
	slices.SortFunc(history, func(a, b held) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(history); i++ {
		before, h := history[i-1], history[i]
		if h.from < before.until || h.token <= before.token {
			t.Errorf("one held it until %v with token %d, the next from %v with token %d", before.until,
				before.token, h.from, h.token)
		}
	}
}

// contend takes the lock once and lets go of it, or hangs.
func contend(t *testing.T, w *network, hangs bool) held {
	c := newClient(t, Options{Cluster: w.cluster})
	l, err := c.Lock(soon(t), "l", LockOptions{TTL: 2 * minLockTTL})
	if err != nil {
		t.Error(err)
		return held{}
	}
	h := held{from: bootTime(), token: l.Token()}
	if hangs {
		c.Close()
		<-l.Done()
	} else {
		select {
		case <-l.Done(): // lost
		case <-time.After(20 * time.Millisecond): // the work
		}
	}
	l.mu.Lock()
	h.until = min(bootTime(), l.until)
	l.mu.Unlock()
	if err := l.Unlock(soon(t)); err != nil && !errors.Is(err, ErrLockLost) {
		t.Error(err)
	}
	return h
}
