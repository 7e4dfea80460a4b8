// Package etcdstale counts stale reads of a leader of etcd that is paused until another member leads.
package etcdstale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/eval/etcdmember"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// System is an etcd cluster of three or more members.
type System struct {
	Name  string
	Start func(ctx context.Context) (etcdmember.Servers, error)
	// Fast counts linearizable reads that the members answered through a chain; nil: there is none.
	Fast func(ctx context.Context, s etcdmember.Servers) (uint64, error)
}

// Options describe a comparison.
type Options struct {
	Systems []System
	Rounds  int
	Readers int // clients of the leader
	Seed    uint64
	// Shortest and Longest bound a pause. It lasts until another member leads in any case.
	Shortest, Longest time.Duration
	Progress          func(step string)
}

// Defaults are the options of the project's published figures. The longest pauses outlast a member's session.
func Defaults() Options {
	return Options{Rounds: 10, Readers: 8, Seed: 1, Shortest: time.Second, Longest: 5 * time.Second}
}

// Validate checks the options.
func (o *Options) Validate() error {
	if o.Rounds < 1 || o.Readers < 1 || o.Readers > 1000 {
		return fmt.Errorf("--rounds %d --readers %d: want at least 1 of both, and at most 1000 readers", o.Rounds, o.Readers)
	}
	return nil
}

// Count is the result of the rounds of one system.
type Count struct {
	System      string `json:"system"`
	Rounds      int    `json:"rounds"`
	StaleRounds int    `json:"stale_rounds"` // with a stale read
	Reads       int    `json:"reads"`        // that began at the paused leader after a newer write was acknowledged, and were answered
	Stale       int    `json:"stale"`        // of them, which showed an older value
	Fast        uint64 `json:"fast_reads"`   // of the system, through the chain
}

// Times of a round.
const (
	key = "stale"
	// changeWithin bounds an election, and a write while there may be no leader.
	changeWithin = time.Minute
	tryFor       = time.Second
	pauseOfTries = 50 * time.Millisecond
	// queued is how long the paused leader's kernel may take to receive the requests, and after is how long clients go
	// on to read when the leader runs again. No count depends on them.
	queued = 100 * time.Millisecond
	after  = time.Second
)

// Run counts the stale reads of each system.
func Run(ctx context.Context, o Options) ([]Count, error) {
	var all []Count
	for _, s := range o.Systems {
		n, err := o.run(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// trial is a running system.
type trial struct {
	etcdmember.Servers
	o       *Options
	rng     *rand.Rand
	clients []*clientv3.Client // of each member
}

func (o *Options) run(ctx context.Context, s System) (n Count, err error) {
	n.System = s.Name
	o.say("%s: starting the members", s.Name)
	servers, err := s.Start(ctx)
	if err != nil {
		return n, err
	}
	t := &trial{Servers: servers, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	defer func() { err = errors.Join(err, t.stop()) }()
	for _, endpoint := range servers.Endpoints() {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()}) // errors are returned
		if err != nil {
			return n, err
		}
		t.clients = append(t.clients, c)
	}
	for n.Rounds < o.Rounds {
		o.say("%s: round %d of %d, %d of %d reads stale", s.Name, n.Rounds+1, o.Rounds, n.Stale, n.Reads)
		reads, stale, err := t.round(ctx)
		if err != nil {
			return n, err
		}
		n.Rounds, n.Reads, n.Stale = n.Rounds+1, n.Reads+reads, n.Stale+stale
		if stale > 0 {
			n.StaleRounds++
		}
	}
	if s.Fast != nil {
		n.Fast, err = s.Fast(ctx, servers)
	}
	return n, err
}

func (t *trial) stop() error {
	for _, c := range t.clients {
		_ = c.Close() // its error only reports that the connection is gone
	}
	return t.Stop()
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// round pauses the leader, has the others elect one and acknowledge a write, lets clients read at the paused one, and
// resumes it.
func (t *trial) round(ctx context.Context) (reads, stale int, err error) {
	i, err := t.leader(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := t.warm(ctx, i); err != nil {
		return 0, 0, err
	}
	length := t.o.Shortest + time.Duration(t.rng.Int64N(int64(t.o.Longest-t.o.Shortest)+1))
	over := time.Now().Add(length)
	process := t.PIDs()[i]
	if err := unix.Kill(process, unix.SIGSTOP); err != nil {
		return 0, 0, err
	}
	resume := sync.OnceValue(func() error { return unix.Kill(process, unix.SIGCONT) })
	defer func() { err = errors.Join(err, resume()) }()
	acknowledged, err := t.write(ctx, (i+1)%len(t.clients))
	if err != nil || !retry.Sleep(ctx, time.Until(over)) {
		return 0, 0, errors.Join(err, ctx.Err())
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	counts := make(chan [2]int)
	for range t.o.Readers {
		go func() {
			reads, stale := t.read(reading, i, acknowledged)
			counts <- [2]int{reads, stale}
		}()
	}
	retry.Sleep(ctx, queued)
	err = resume()
	retry.Sleep(ctx, after)
	cancel()
	for range t.o.Readers {
		n := <-counts
		reads, stale = reads+n[0], stale+n[1]
	}
	return reads, stale, errors.Join(err, ctx.Err(), t.Ended())
}

// until tries something until it succeeds.
func until(ctx context.Context, what string, try func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	for {
		once, end := context.WithTimeout(limited, tryFor)
		err := try(once)
		end()
		if err == nil {
			return nil
		}
		if !retry.Sleep(limited, pauseOfTries) {
			return fmt.Errorf("%s within %v: %w", what, changeWithin, err)
		}
	}
}

// leader returns the number of the leader, once all members agree on it.
func (t *trial) leader(ctx context.Context) (leads int, err error) {
	err = until(ctx, "the members have no leader", func(ctx context.Context) error {
		leader, all := uint64(0), t.Endpoints()
		for i, c := range t.clients {
			s, err := c.Status(ctx, all[i])
			switch {
			case err != nil:
				return err
			case s.Leader == 0 || i > 0 && s.Leader != leader:
				return errors.New("they do not agree: " + strings.Join(s.Errors, ", "))
			case s.Leader == s.Header.MemberId:
				leads = i
			}
			leader = s.Leader
		}
		return nil
	})
	return leads, err
}

// warm writes, and reads at the leader, so that its clients are connected.
func (t *trial) warm(ctx context.Context, leader int) error {
	if _, err := t.write(ctx, leader); err != nil {
		return err
	}
	return until(ctx, "the leader answers no read", func(ctx context.Context) error {
		_, err := t.clients[leader].Get(ctx, key)
		return err
	})
}

// write writes at a member, and returns the revision that was acknowledged.
func (t *trial) write(ctx context.Context, member int) (revision int64, err error) {
	err = until(ctx, "no write is acknowledged", func(ctx context.Context) error {
		r, err := t.clients[member].Put(ctx, key, "")
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision, err
}

// read reads at a member until ctx ends.
func (t *trial) read(ctx context.Context, member int, acknowledged int64) (reads, stale int) {
	for ctx.Err() == nil {
		r, err := t.clients[member].Get(ctx, key)
		if err != nil {
			retry.Sleep(ctx, pauseOfTries)
			continue
		}
		reads++
		if isStale(r, acknowledged) {
			stale++
		}
	}
	return reads, stale
}

// isStale reports whether a read that began after a write was acknowledged does not show it, or a later one.
func isStale(r *clientv3.GetResponse, acknowledged int64) bool {
	return len(r.Kvs) == 0 || r.Kvs[0].ModRevision < acknowledged
}
