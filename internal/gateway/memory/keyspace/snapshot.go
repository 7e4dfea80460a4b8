package keyspace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Snapshot is the keys, leases and users at one revision, with the history since the last compaction, or without.
type Snapshot struct {
	compacted int64 // the oldest revision that can be read
	users     []userEntry
	leases    []*leasepb.Lease
	revisions []entry // in their order
}

// entry is a revision, and the encoded object that was written at it.
type entry struct {
	at     place
	object []byte
}

// Snapshot returns the keys and leases with the history. It must not run beside Apply. The keys are not copied.
func (k *Keyspace) Snapshot() *Snapshot { return k.snapshot(max(k.Compacted(), 0), k.heap.all()) }

// Present returns the keys and leases without the history, as Snapshot does.
func (k *Keyspace) Present() (*Snapshot, error) {
	revisions, err := k.heap.present()
	if err != nil {
		return nil, err
	}
	return k.snapshot(k.Revision(), revisions), nil
}

func (k *Keyspace) snapshot(compacted int64, revisions []entry) *Snapshot {
	s := &Snapshot{compacted: compacted, users: k.heap.userEntries(), revisions: revisions}
	for _, l := range k.leases.Leases() {
		s.leases = append(s.leases, &leasepb.Lease{ID: int64(l.ID), TTL: l.TTL()})
	}
	return s
}

// A snapshot begins with withRevisions. Older ones begin with their revision, and have no history: their objects stand
// there without the revisions' names.
const withRevisions = 0

// Write compresses a snapshot. [Restore] reads it.
func (s *Snapshot) Write(out io.Writer) error {
	w, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	b := binary.AppendUvarint(appendUsers(nil, s.users), withRevisions)
	for _, n := range []uint64{uint64(s.compacted), uint64(len(s.leases)), uint64(len(s.revisions))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, l := range s.leases {
		b = binary.AppendUvarint(b, uint64(proto.Size(l)))
		if b, err = (proto.MarshalOptions{}).MarshalAppend(b, l); err != nil {
			return err
		}
	}
	for _, e := range s.revisions {
		b = append(binary.AppendUvarint(b, uint64(e.at.bytes())), e.at.name()...)
		b = binary.AppendUvarint(b, uint64(len(e.object)))
		if _, err := w.Write(b); err != nil {
			return err
		}
		if _, err := w.Write(e.object); err != nil {
			return err
		}
		b = b[:0]
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Close()
}

// ErrSnapshot: the snapshot has another format.
var ErrSnapshot = errors.New("the snapshot cannot be read")

// Restore makes a keyspace from an encoded snapshot.
func Restore(encoded io.Reader, t Tokens) (*Keyspace, error) {
	r, err := zstd.NewReader(encoded, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	defer r.Close()
	s, err := decode(bufio.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return open(t, s.fill)
}

const (
	// maxMessageBytes bounds a key with its value in a snapshot.
	maxMessageBytes = 1 << 30
	// firstPart is how much memory the length of a message takes before the message is read.
	firstPart = 4 << 20
)

// readMessage reads a message behind its length.
func readMessage(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxMessageBytes {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	var b []byte
	for uint64(len(b)) < n {
		part := min(n-uint64(len(b)), max(firstPart, uint64(len(b))))
		b = slices.Grow(b, int(part))[:uint64(len(b))+part]
		if _, err := io.ReadFull(r, b[uint64(len(b))-part:]); err != nil {
			return nil, err
		}
	}
	return slices.Clip(b), nil
}

func decode(r *bufio.Reader) (*Snapshot, error) {
	known, err := readUsers(r)
	if err != nil {
		return nil, err
	}
	compacted, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	read := readObjects
	if compacted == withRevisions {
		read = readRevisions
		if compacted, err = binary.ReadUvarint(r); err != nil {
			return nil, err
		}
	}
	var leases, revisions uint64
	for _, n := range []*uint64{&leases, &revisions} {
		if *n, err = binary.ReadUvarint(r); err != nil {
			return nil, err
		}
	}
	s := &Snapshot{compacted: int64(compacted), users: known}
	for range leases {
		b, err := readMessage(r)
		l := new(leasepb.Lease)
		if err == nil {
			err = proto.Unmarshal(b, l)
		}
		if err != nil {
			return nil, err
		}
		s.leases = append(s.leases, l)
	}
	s.revisions, err = read(r, revisions)
	return s, err
}

// readRevisions reads a number of revisions, which must be in their order.
func readRevisions(r *bufio.Reader, n uint64) ([]entry, error) {
	var all revisions
	for range n {
		name, err := readMessage(r)
		if err != nil {
			return nil, err
		}
		object, err := readMessage(r)
		if err != nil {
			return nil, err
		}
		if err := all.add(name, object); err != nil {
			return nil, err
		}
	}
	return all.entries, nil
}

// revisions are the revisions of a snapshot that is read.
type revisions struct {
	entries []entry
	last    mvcc.Revision
}

// add takes the next revision, and keeps the object. It refuses one that does not follow, and an object that is
// not of that revision.
func (r *revisions) add(name, object []byte) error {
	at, ok := revisionOf(name)
	if !ok || !at.GreaterThan(r.last) {
		return fmt.Errorf("%q: %w", name, errRevision)
	}
	key, modified, err := keyAndRevision(object)
	switch {
	case err != nil:
		return fmt.Errorf("revision %d: %w", at.Main, err)
	case !mvcc.IsTombstone(name) && modified != at.Main:
		return fmt.Errorf("the key %q of revision %d says that it is of %d", key, at.Main, modified)
	}
	r.entries, r.last = append(r.entries, entry{placeOf(name), object}), at
	return nil
}

// revisionOf decodes the name of a revision in etcd's store; ok is false if it is none.
func revisionOf(name []byte) (at mvcc.Revision, ok bool) {
	const whole, tombstone, separator = 17, 18, 8 // bytes, and the place of the one between two numbers
	if len(name) != whole && (len(name) != tombstone || !mvcc.IsTombstone(name)) || name[separator] != '_' {
		return at, false
	}
	at.Main = int64(binary.BigEndian.Uint64(name))
	at.Sub = int64(binary.BigEndian.Uint64(name[separator+1:]))
	return at, at.Main > 0 && at.Sub >= 0
}

// readObjects reads a number of objects that exist, and names their revisions anew.
func readObjects(r *bufio.Reader, n uint64) ([]entry, error) {
	type revised struct {
		at     int64
		object []byte
	}
	var objects []revised
	for range n {
		object, err := readMessage(r)
		if err != nil {
			return nil, err
		}
		_, at, err := keyAndRevision(object)
		if err == nil && at <= 0 {
			err = errRevision
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, revised{at, object})
	}
	slices.SortStableFunc(objects, func(a, b revised) int { return cmp.Compare(a.at, b.at) })
	all := make([]entry, len(objects))
	var at mvcc.Revision
	for i, o := range objects {
		if o.at == at.Main {
			at.Sub++ // several keys of one transaction
		} else {
			at = mvcc.Revision{Main: o.at}
		}
		all[i] = entry{placeAt(at, false), o.object}
	}
	return all, nil
}

// fill writes a snapshot into a heap, which keeps its entries.
func (s *Snapshot) fill(tx backend.BatchTx) error {
	for _, e := range s.revisions {
		tx.UnsafeSeqPut(schema.Key, e.at.name(), e.object)
	}
	for _, e := range s.users {
		tx.UnsafePut(userBuckets[e.bucket], e.key, e.value)
	}
	for _, l := range s.leases {
		schema.MustUnsafePutLease(tx, l)
	}
	if s.compacted > 0 {
		mvcc.UnsafeSetScheduledCompact(tx, s.compacted)
		mvcc.UnsafeSetFinishedCompact(tx, s.compacted)
	}
	return nil
}

var (
	errKey      = errors.New("a key has another format")
	errRevision = errors.New("a revision has another format, or does not follow the one before")
)

var (
	fieldKey      = fieldOf(&mvccpb.KeyValue{}, "key")
	fieldRevision = fieldOf(&mvccpb.KeyValue{}, "mod_revision")
)

// keyAndRevision returns the key of an encoded object, and the revision of its last change.
func keyAndRevision(kv []byte) (key []byte, revision int64, err error) {
	for len(kv) > 0 {
		number, kind, n := protowire.ConsumeTag(kv)
		if n < 0 || number > protowire.MaxValidNumber {
			return nil, 0, errKey
		}
		length := protowire.ConsumeFieldValue(number, kind, kv[n:])
		if length < 0 {
			return nil, 0, errKey
		}
		switch {
		case number == fieldKey && kind == protowire.BytesType:
			key, _ = protowire.ConsumeBytes(kv[n:])
		case number == fieldRevision && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(kv[n:])
			revision = int64(v)
		}
		kv = kv[n+length:]
	}
	if len(key) == 0 {
		return nil, 0, errKey
	}
	return key, revision, nil
}

// all returns all revisions.
func (h *heap) all() []entry {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := make([]entry, 0, h.revisions.entries)
	for _, q := range h.revisions.parts {
		for i, at := range q.places {
			if object := q.value(i); object != nil { // not removed
				all = append(all, entry{at, object})
			}
		}
	}
	return all
}

// present returns the newest revisions of the objects that exist.
func (h *heap) present() ([]entry, error) {
	all := h.all()
	seen := make(map[string]struct{})
	var newest []entry
	for _, e := range slices.Backward(all) {
		key, _, err := keyAndRevision(e.object)
		if err != nil {
			return nil, err
		}
		if _, ok := seen[string(key)]; ok {
			continue
		}
		seen[string(key)] = struct{}{}
		if !e.at.deleted() {
			newest = append(newest, e)
		}
	}
	slices.Reverse(newest)
	return newest, nil
}
