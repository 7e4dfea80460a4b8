package journal

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// queued is a write that the disk does not have yet.
type queued struct {
	at      uint64
	record  record
	file    *os.File    // of a content
	unready *Checkpoint // that it is
	entries []Entry     // of the checkpoint
}

// put queues a write.
func (j *Journal) put(q queued) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q.at = j.next
	j.queue, j.next = append(j.queue, q), j.next+1
}

// Append writes entries behind the last one. They must not change any more.
func (j *Journal) Append(entries []Entry) error {
	for _, e := range entries {
		if err := j.write(record{kind: kindEntry, position: core.Position{Term: e.Term}, payload: e.Payload}); err != nil {
			return err
		}
	}
	return nil
}

// Mark writes that the entries up to a position are the state with which its era begins. Those behind it are dropped.
func (j *Journal) Mark(p core.Position) error { return j.write(record{kind: kindMark, position: p}) }

// Vow writes that no entry of an era below era is stored any more.
func (j *Journal) Vow(era uint64) error { return j.write(record{kind: kindVow, promised: era}) }

func (j *Journal) write(r record) error {
	if err := j.apply(j.next, &r); err != nil {
		return err
	}
	j.put(queued{record: r})
	return nil
}

// Store replaces the content. The position is that of its last entry. It includes the vow of the position's era.
func (j *Journal) Store(p core.Position, a *Arrived) {
	j.stored = core.Stored{Promised: max(j.stored.Promised, p.Era), Last: p}
	j.now, j.bytes = a.content, 0
	j.now.at = j.next
	j.put(queued{file: a.file, record: record{
		kind: kindStore, position: p, promised: j.stored.Promised, sum: uint64(a.sum),
	}})
}

// Checkpoint replaces the content by an equal one with a newer state. It drops a checkpoint that is of no use any more,
// because another content came meanwhile. The entries behind its state must not be forgotten.
func (j *Journal) Checkpoint(c *Checkpoint) error {
	if c.index < j.now.state || c.index > j.now.last() {
		return c.Remove()
	}
	if c.index < j.now.forgot {
		return errors.Join(fmt.Errorf("a checkpoint of entry %d, and entry %d is forgotten", c.index, j.now.forgot), c.Remove())
	}
	j.now, j.bytes = contentOf(c.f, c.index, j.Entries(c.index, j.now.last())), 0
	j.now.at = j.next
	j.put(queued{file: c.f, unready: c, entries: j.Entries(c.index, j.now.last()), record: record{
		kind: kindStore, position: j.stored.Last, promised: j.stored.Promised,
	}})
	return nil
}

// Sync syncs what the journal had when it was opened.
func (j *Journal) Sync() error { return j.fail(j.log.Sync()) }

// Flush writes and syncs what was written before. After an error nothing more can be written: it is not known what the
// disk has.
func (j *Journal) Flush() error {
	j.mu.Lock()
	queue, err := j.queue, j.failed
	j.queue = nil
	j.mu.Unlock()
	for len(queue) > 0 && err == nil {
		n := 0
		var group []*raftpb.Entry
		for ; n < len(queue) && queue[n].file == nil; n++ {
			group = append(group, queue[n].encode())
		}
		if n > 0 {
			err = j.log.Save(&raftpb.HardState{}, group)
		} else {
			n, err = 1, j.replace(&queue[0])
		}
		if err == nil {
			j.wrote(queue[n-1].at)
		}
		queue = queue[n:]
	}
	return j.fail(err)
}

// wrote says that the disk has the records up to an index.
func (j *Journal) wrote(at uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written = at
}

func (j *Journal) fail(err error) error {
	if err == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = unwritable(j.dir, err)
	}
	return j.failed
}

func (q *queued) encode() *raftpb.Entry {
	return &raftpb.Entry{Index: proto.Uint64(q.at), Term: proto.Uint64(1), Data: q.record.encode()}
}

// replace stores another content.
func (j *Journal) replace(q *queued) error {
	if q.unready != nil {
		sum, err := q.unready.finish(q.entries)
		if err != nil {
			return err
		}
		q.record.sum = uint64(sum)
	}
	if err := j.keep(q.file, q.at); err != nil {
		return err
	}
	if q.at > 1 {
		if err := j.log.SaveSnapshot(snapshot(q.at - 1)); err != nil {
			return err
		}
	}
	if err := j.log.Save(&raftpb.HardState{}, []*raftpb.Entry{q.encode()}); err != nil {
		return err
	}
	return errors.Join(j.release(q.at), j.tidy(q.at, false))
}
