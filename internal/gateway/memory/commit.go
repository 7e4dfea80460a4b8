package memory

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// batch is the proposals that one entry of the log, or a few, contain.
type batch struct {
	proposals []*proposal
	index     uint64 // of its last entry
	counted   bool   // by the barrier
	term      uint64 // of a keyspace on disks: that of its writer
	window    *window
}

// fail answers all proposals with an error.
func (b *batch) fail(err error) {
	for _, p := range b.proposals {
		p.finish(keyspace.Answer{}, err)
	}
	b.flush()
}

// flush is called once, after the outcomes of all proposals.
func (b *batch) flush() {
	for _, p := range b.proposals {
		p.caller.flush()
	}
	if b.window != nil {
		b.window.end()
	}
}

// run appends the waiting proposals to the log, batch by batch, until this gateway is no longer active.
// While the chain commits a batch, the one before is applied.
func (l *leader) run() error {
	if l.writer != nil {
		return l.order()
	}
	committed := make(chan batch, maxBatches)
	var applying sync.WaitGroup
	applying.Go(func() {
		for b := range committed {
			l.apply(&b)
			if b.counted {
				l.barrier.end()
			}
		}
	})
	defer applying.Wait()
	defer l.proposals.close()
	defer close(committed)
	var encoded []byte
	for {
		var b batch
		var err error
		if b, encoded, err = l.gather(encoded[:0]); err != nil {
			return err
		}
		l.barrier.begin()
		err = l.append(encoded, committed)
		switch {
		case errors.Is(err, chainlog.ErrTooLarge):
			b.fail(rpctypes.ErrGRPCRequestTooLarge)
			b.proposals = nil
		case errors.Is(err, chainlog.ErrFull):
			b.fail(rpctypes.ErrGRPCNoSpace)
			b.proposals = nil
		case err != nil:
			// The next active gateway may find the batch in the log.
			b.fail(rpctypes.ErrGRPCTimeoutDueToLeaderFail)
			return err
		}
		b.index, b.counted = l.g.log.Next()-1, true
		committed <- b
	}
}

// gather waits for a proposal, and takes those that wait then.
func (l *leader) gather(encoded []byte) (b batch, _ []byte, err error) {
	for len(b.proposals) == 0 {
		some := l.proposals.take()
		for _, p := range some {
			encoded = b.add(p, encoded)
		}
		if len(some) > 0 {
			continue
		}
		select {
		case <-l.ctx.Done():
			return b, encoded, l.cause()
		case <-l.proposals.filled:
		}
	}
	return b, encoded, nil
}

// add takes a proposal, unless its caller has taken it back.
func (b *batch) add(p *proposal, encoded []byte) []byte {
	if !p.owner.CompareAndSwap(0, taken) {
		return encoded
	}
	b.proposals = append(b.proposals, p)
	return append(binary.AppendUvarint(encoded, uint64(len(p.encoded))), p.encoded...)
}

// append stores a batch. If the log is full it waits for the snapshot that lets entries go.
func (l *leader) append(encoded []byte, committed chan<- batch) error {
	for {
		began := time.Now()
		err := l.g.log.Append(l.ctx, encoded)
		if err == nil {
			l.g.appends.Observe(time.Since(began).Seconds())
		}
		if !errors.Is(err, chainlog.ErrFull) || l.unsaved.Swap(false) {
			return err
		}
		if !l.saving.Load() {
			committed <- batch{index: l.g.log.Next() - 1} // has a snapshot taken
		}
		pause(l.ctx, nil, pollEvery)
		if l.ctx.Err() != nil {
			return l.cause()
		}
	}
}

// apply executes a batch and answers.
func (l *leader) apply(b *batch) {
	for _, p := range b.proposals {
		p.finish(l.g.execute(&p.command))
	}
	b.flush()
	l.g.applied.Raise(l.g.space.Revision())
	if l.g.space != l.space {
		l.cancel(errRebuilt)
		return
	}
	if l.g.log.SnapshotDue(b.index) && !l.saving.Load() {
		l.save(b.index)
	}
	l.compact()
}

// save stores a snapshot of everything up to an entry, while later entries are appended.
func (l *leader) save(index uint64) {
	snapshot, err := l.space.Present()
	if err != nil {
		l.g.o.Log.Warn("no snapshot", "error", err)
		l.unsaved.Store(true)
		return
	}
	l.saving.Store(true)
	l.background.Go(func() {
		defer l.saving.Store(false)
		err := l.g.log.Save(l.ctx, l.term, index, l.term, snapshot.Write)
		if err != nil && l.ctx.Err() == nil {
			l.g.o.Log.Warn("the snapshot was not stored: give the chain's nodes more --objects", "error", err)
			l.unsaved.Store(true)
		}
	})
}
