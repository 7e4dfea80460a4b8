package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// Journal is the journal of one directory. Calls must not run at once, except those that say so, and [Journal.Flush]
// beside the others.
type Journal struct {
	dir  string
	lock *fileutil.LockedFile
	log  *wal.WAL
	id   identity

	stored core.Stored
	now    content
	next   uint64 // index in the write-ahead log
	bytes  int64  // of records since the content was stored

	mu      sync.Mutex
	queue   []queued
	written uint64 // the index of the last record that the disk has
	failed  error  // a write has failed
}

// Open opens the journal of a directory, or makes one. id is the keyspace's number, and member the gateway's name. The
// end of what it has may not be synced before [Journal.Sync]. The error is [ErrDamaged] if [SetAside] should follow.
func Open(dir, keyspace string, id uint64, member string) (j *Journal, err error) {
	l, err := lock(dir)
	if err != nil {
		return nil, err
	}
	j = &Journal{dir: dir, lock: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Close())
			j = nil
		}
	}()
	if wal.Exist(filepath.Join(dir, walDir)) {
		err = j.open(keyspace, id, member)
	} else {
		err = j.make(keyspace, id, member)
	}
	if err == nil {
		err = j.tidy(j.now.at, true)
	}
	return j, err
}

func (j *Journal) make(keyspace string, id uint64, member string) error {
	if err := foreign(j.dir); err != nil {
		return err
	}
	j.id, j.next = draw(keyspace, id, member), 1
	b, err := j.id.encode()
	if err != nil {
		return err
	}
	if j.log, err = wal.Create(zap.NewNop(), filepath.Join(j.dir, walDir), b); err != nil {
		return unwritable(j.dir, err)
	}
	return nil
}

// open reads the newest content that the write-ahead log knows, and the records behind it.
func (j *Journal) open(keyspace string, id uint64, member string) error {
	all, err := contents(j.dir)
	if err != nil {
		return unwritable(j.dir, err)
	}
	if err := checkEnd(filepath.Join(j.dir, walDir)); err != nil {
		return j.damaged(err)
	}
	var records []*raftpb.Entry
	for _, at := range append(all, 0) {
		if records, err = j.read(at); err != nil {
			continue // the write-ahead log may begin before an older content
		}
		if at == 0 || len(records) > 0 {
			break
		}
		err = errors.Join(errors.New("no content belongs to the write-ahead log"), j.log.Close())
		j.log = nil
	}
	switch {
	case os.IsPermission(err), errors.Is(err, fileutil.ErrLocked):
		return unwritable(j.dir, err)
	case err != nil:
		return j.damaged(err)
	}
	if err := j.id.check(j.dir, keyspace, id, member); err != nil {
		return err
	}
	for _, e := range records {
		r, err := decode(e.GetData())
		if err == nil {
			err = j.replay(e.GetIndex(), &r)
		}
		if err != nil {
			return j.damaged(fmt.Errorf("write %d: %w", e.GetIndex(), err))
		}
		j.next = e.GetIndex() + 1
	}
	j.written = j.next - 1
	return nil
}

func (j *Journal) damaged(err error) error { return fmt.Errorf("%w: %s: %w", ErrDamaged, j.dir, err) }

// read opens the write-ahead log to read the records from an index on, which is that of a content, or 0.
func (j *Journal) read(at uint64) (records []*raftpb.Entry, err error) {
	path := filepath.Join(j.dir, walDir)
	if records, err = j.readOnce(path, at); errors.Is(err, io.ErrUnexpectedEOF) && wal.Repair(zap.NewNop(), path) {
		records, err = j.readOnce(path, at)
	}
	return records, err
}

func (j *Journal) readOnce(path string, at uint64) (records []*raftpb.Entry, err error) {
	before := max(at, 1) - 1
	log, err := wal.Open(zap.NewNop(), path, snapshot(before))
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // etcd does not expect other bytes behind a good checksum
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			err = errors.Join(err, log.Close())
			return
		}
		j.log = log
	}()
	metadata, state, records, err := log.ReadAll()
	switch {
	case err != nil:
	case !proto.Equal(state, &raftpb.HardState{}):
		err = errors.New("the type of a record was changed") // checksums do not cover it, and no state is written
	default:
		j.id, err = decodeIdentity(metadata)
	}
	j.next = before + 1
	return records, err
}

func snapshot(index uint64) *walpb.Snapshot {
	term := uint64(0)
	if index > 0 {
		term = 1
	}
	return &walpb.Snapshot{
		Index: proto.Uint64(index), Term: proto.Uint64(term), ConfState: &raftpb.ConfState{},
	}
}

// replay changes the content as a record does that was read.
func (j *Journal) replay(at uint64, r *record) error {
	if r.kind != kindStore {
		return j.apply(at, r)
	}
	c, err := j.load(at, r.sum)
	if err == nil && c.last() != r.position.Index {
		err = ErrContent
	}
	j.stored = core.Stored{Promised: r.promised, Last: r.position}
	j.now, j.bytes = c, 0
	return err
}

// apply changes the content as a record at an index does, unless it stores another one.
func (j *Journal) apply(at uint64, r *record) error {
	last := &j.stored.Last
	switch r.kind {
	case kindEntry:
		j.now.add(at, Entry{r.position.Term, r.payload})
		last.Index, last.Term = last.Index+1, r.position.Term
	case kindVow:
		j.stored.Promised = r.promised
	case kindMark:
		if r.position.Index > last.Index || r.position.Index < j.now.state {
			return fmt.Errorf("a mark at entry %d of the states from %d to %d", r.position.Index, j.now.state, last.Index)
		}
		j.now.cut(r.position.Index)
		*last = r.position
	}
	j.bytes += int64(len(r.payload)) + recordBytes
	return nil
}

// recordBytes is about what a record takes besides its payload.
const recordBytes = 48

// Disk is this disk.
func (j *Journal) Disk() core.Disk { return j.id.disk() }

// Stored is what the disk has, with what [Journal.Flush] has still to write.
func (j *Journal) Stored() core.Stored { return j.stored }

// Due reports whether a checkpoint would free a number of bytes at least, and half of what it writes.
func (j *Journal) Due(least int64) bool {
	if j.bytes < least {
		return false
	}
	if j.now.file == nil {
		return true
	}
	info, err := j.now.file.Stat()
	return err == nil && j.bytes > info.Size()/2
}

// release removes the write-ahead log before the content.
func (j *Journal) release(at uint64) error {
	if err := j.log.ReleaseLockTo(at); err != nil {
		return err
	}
	dir := filepath.Join(j.dir, walDir)
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		l, err := fileutil.TryLockFile(n, os.O_WRONLY, 0o600)
		if errors.Is(err, fileutil.ErrLocked) {
			break // this journal uses it
		}
		if err != nil {
			return err
		}
		if err := errors.Join(os.Remove(n), l.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the journal.
func (j *Journal) Close() (err error) {
	if j.log != nil {
		err = j.log.Close()
	}
	return errors.Join(err, j.lock.Close())
}
