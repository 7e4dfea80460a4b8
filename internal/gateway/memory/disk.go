package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

// machine is a gateway as the state machine of a keyspace on disks. A batch of this gateway is executed when it counts,
// and then its callers get their answers.
type machine struct {
	g       *Gateway
	batches driver.Batches

	mu      sync.Mutex
	pending map[uint64]*batch // by the index of the last entry
}

var _ driver.Machine = (*machine)(nil)

// openDisk opens the data directory.
func (g *Gateway) openDisk() (err error) {
	g.m = &machine{g: g, pending: make(map[uint64]*batch)}
	if g.disk, err = g.o.Disk(driver.Options{
		Keyspace: g.o.Name, ID: g.o.ID, Address: g.o.Advertise, Machine: g.m, Heard: g.heard, Logger: g.o.Log,
		Begin: g.o.Begin,
	}, g.o.Peers); err == nil {
		g.self.ID = g.disk.Disk().Name
	}
	return err
}

// Handler answers calls of other gateways about the disk. It is nil of a keyspace in memory.
func (g *Gateway) Handler() driver.Handler {
	if g.disk == nil {
		return nil
	}
	return g.disk
}

// expect has a batch of this gateway's answered when its last entry is applied.
func (m *machine) expect(index uint64, b *batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending[index] = b
}

func (m *machine) take(index uint64) *batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.pending[index]
	delete(m.pending, index)
	return b
}

// fail answers the batches that may have been lost.
func (m *machine) fail() {
	m.mu.Lock()
	pending := m.pending
	m.pending = make(map[uint64]*batch)
	m.mu.Unlock()
	for _, b := range pending {
		b.fail(rpctypes.ErrGRPCTimeoutDueToLeaderFail)
	}
}

// Enter implements [driver.Machine].
func (m *machine) Enter(uint64) { m.fail() }

// Restore implements [driver.Machine].
func (m *machine) Restore(index uint64, state io.Reader) (err error) {
	var space *keyspace.Keyspace
	if index == 0 {
		space, err = keyspace.New(1, m.g.o.Tokens)
	} else {
		space, err = keyspace.Restore(state, m.g.o.Tokens)
	}
	if err != nil {
		return err
	}
	m.fail()
	m.batches.Reset(index)
	if l := m.g.where().lead; l != nil {
		l.cancel(errRebuilt)
	}
	return m.g.replace(space)
}

// Apply implements [driver.Machine].
func (m *machine) Apply(first uint64, entries []journal.Entry) error {
	g := m.g
	for i := range entries {
		index, e := first+uint64(i), &entries[i]
		g.sawTerm(e.Term)
		encoded, complete := m.batches.Take(index, e.Payload)
		if !complete {
			continue
		}
		b := m.take(index)
		if b != nil && b.term != e.Term { // another writer was faster
			b.fail(rpctypes.ErrGRPCTimeoutDueToLeaderFail)
			b = nil
		}
		if b == nil {
			if err := g.applyBatch(index, encoded); err != nil {
				return err
			}
			continue
		}
		for _, p := range b.proposals {
			p.finish(g.execute(&p.command))
		}
		b.flush()
		g.applied.Raise(g.space.Revision())
	}
	if l := g.where().lead; l != nil {
		if g.space != l.space {
			l.cancel(errRebuilt)
		} else {
			l.compact()
		}
	}
	return nil
}

// Snapshot implements [driver.Machine].
func (m *machine) Snapshot() (uint64, func(io.Writer) error, error) {
	return m.batches.Whole(), m.g.space.Snapshot().Write, nil
}

// Whole implements [driver.Machine].
func (m *machine) Whole() uint64 { return m.batches.Whole() }

// runOnDisk runs the gateway of a keyspace on disks.
func (g *Gateway) runOnDisk(ctx context.Context) error {
	elected, done := make(chan *client.Lock), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	failed := make(chan error, 1)
	beside.Go(func() { failed <- g.disk.Run(ctx) })
	beside.Go(func() {
		g.findOnDisk(ctx) // before, it could not lead
		g.elect(ctx, elected, done)
	})
	defer g.m.fail()
	for {
		select {
		case err := <-failed:
			return err
		case lock := <-elected:
			if err := g.leadWith(ctx, lock); err != nil && ctx.Err() == nil {
				g.o.Log.Warn("this gateway is no longer active", "reason", err)
			}
			g.release(lock)
			pause(ctx, nil, g.o.LockTTL/4) // another gateway may be able to
			done <- struct{}{}
		}
	}
}

// findOnDisk waits until this gateway has the present state.
func (g *Gateway) findOnDisk(ctx context.Context) {
	for ctx.Err() == nil {
		if g.readOnDisk(ctx) == nil {
			g.found()
			return
		}
		pause(ctx, nil, retryEvery)
	}
}

// readOnDisk waits until this gateway's copy has all that was acknowledged before.
func (g *Gateway) readOnDisk(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := g.disk.Read(waiting)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, driver.ErrEnded):
		return rpctypes.ErrGRPCStopped
	}
	return rpctypes.ErrGRPCNoLeader
}

// syncWithin is how long a slow majority of the disks may take to sync a fence.
const syncWithin = time.Minute

// takeOverOnDisk makes the log of the present era this gateway's, and applies all of it. cancel ends the term with the
// era.
func (g *Gateway) takeOverOnDisk(ctx context.Context, term uint64, cancel context.CancelCauseFunc) (*driver.Writer, error) {
	within, stop := context.WithTimeout(ctx, 2*g.o.LockTTL+time.Second)
	w, err := g.disk.Lead(within, term)
	stop()
	if err != nil {
		return nil, err
	}
	over := func(s driver.Status) bool { return s.Record.Active.Number != w.Era || s.Broken }
	// The fence counts when a majority of the disks has synced it. Another gateway would wait for the same disks.
	within, stop = context.WithTimeout(ctx, syncWithin)
	defer stop()
	s, err := g.disk.Wait(within, func(s driver.Status) bool { return s.Applied+1 >= w.Next() || over(s) })
	if err == nil && over(s) {
		err = fmt.Errorf("era %d has ended", w.Era)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		if _, err := g.disk.Wait(ctx, over); err == nil {
			err = fmt.Errorf("era %d has ended", w.Era)
			cancel(err)
		} else {
			cancel(err)
		}
	}()
	return w, nil
}

// maxBatch is how many bytes a batch of several commands should have at most.
func (l *leader) maxBatch() int {
	if l.writer == nil {
		return l.g.log.MaxBatch()
	}
	return maxBatchBytes
}

// maxBatchBytes keeps the answers to a batch from waiting long.
const maxBatchBytes = 64 << 10

// order appends the waiting proposals to the log of an era, batch by batch, until this gateway is no longer active.
// Batches before are synced and executed meanwhile.
func (l *leader) order() error {
	defer l.proposals.close()
	window := window{freed: make(chan struct{}, 1)}
	var encoded []byte
	for {
		if err := l.turn(&window); err != nil {
			return err
		}
		var b batch
		var err error
		if b, encoded, err = l.gather(encoded[:0]); err != nil {
			return err
		}
		b.term, b.window = l.term, &window
		window.begin()
		began := time.Now()
		at := uint64(0)
		_, err = l.writer.Append(l.ctx, encoded, func(index uint64) {
			at = index
			l.g.m.expect(index, &b)
		})
		switch {
		case err == nil:
			l.g.appends.Observe(time.Since(began).Seconds())
		case at == 0 && errors.Is(err, driver.ErrTooLarge):
			b.fail(rpctypes.ErrGRPCRequestTooLarge)
		case at == 0:
			b.fail(errNotActive)
			return err
		default:
			if l.g.m.take(at) != nil { // the next active gateway may find it in the log
				b.fail(rpctypes.ErrGRPCTimeoutDueToLeaderFail)
			}
			return err
		}
	}
}

// turn waits until the next batch may begin. Each takes messages and a sync at all gateways, whatever its size.
func (l *leader) turn(w *window) error {
	for !w.open(l.proposals.whole()) {
		select {
		case <-l.ctx.Done():
			return l.cause()
		case <-l.proposals.filled:
		case <-w.freed:
		}
	}
	return nil
}

// membersOnDisk lists the gateways that the record has.
func (g *Gateway) membersOnDisk(ctx context.Context, q *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if q.Linearizable {
		if err := g.readOnDisk(ctx); err != nil {
			return nil, err
		}
	}
	scheme, _, _ := strings.Cut(g.self.ClientURLs[0], "://")
	a := &pb.MemberListResponse{Header: new(pb.ResponseHeader)}
	s := g.disk.Status()
	for _, o := range s.Gateways {
		a.Members = append(a.Members, &pb.Member{
			ID: o.Disk.Name, Name: o.Member, ClientURLs: []string{scheme + "://" + o.Address},
		})
	}
	return complete(g, a, nil)
}
