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

// Snapshot is the keys and leases at one revision, without their history.
type Snapshot struct {
	revision int64
	leases   []*leasepb.Lease
	keys     [][]byte // encoded, in the order of their revisions
}

// Snapshot returns the present keys and leases. It must not run beside Apply. The keys are not copied.
func (k *Keyspace) Snapshot() (*Snapshot, error) {
	keys, err := k.heap.present()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{revision: k.Revision(), keys: keys}
	for _, l := range k.leases.Leases() {
		s.leases = append(s.leases, &leasepb.Lease{ID: int64(l.ID), TTL: l.TTL()})
	}
	return s, nil
}

// Write compresses a snapshot. [Restore] reads it.
func (s *Snapshot) Write(out io.Writer) error {
	w, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	b := binary.AppendUvarint(nil, uint64(s.revision))
	b = binary.AppendUvarint(b, uint64(len(s.leases)))
	b = binary.AppendUvarint(b, uint64(len(s.keys)))
	for _, l := range s.leases {
		b = binary.AppendUvarint(b, uint64(proto.Size(l)))
		if b, err = (proto.MarshalOptions{}).MarshalAppend(b, l); err != nil {
			return err
		}
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, kv := range s.keys {
		if _, err := w.Write(binary.AppendUvarint(b[:0], uint64(len(kv)))); err != nil {
			return err
		}
		if _, err := w.Write(kv); err != nil {
			return err
		}
	}
	return w.Close()
}

// ErrSnapshot: the snapshot has another format.
var ErrSnapshot = errors.New("the snapshot cannot be read")

// Restore makes a keyspace from an encoded snapshot. Its history begins at the snapshot's revision.
func Restore(encoded io.Reader) (*Keyspace, error) {
	r, err := zstd.NewReader(encoded, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	defer r.Close()
	s, err := decode(bufio.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return open(s.fill)
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
	var numbers [3]uint64
	for i := range numbers {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, err
		}
		numbers[i] = n
	}
	s := &Snapshot{revision: int64(numbers[0])}
	for range numbers[1] {
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
	for range numbers[2] {
		kv, err := readMessage(r)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, kv)
	}
	return s, nil
}

// fill writes a snapshot into a heap as if it had been compacted at its revision. The heap keeps the encoded keys.
func (s *Snapshot) fill(tx backend.BatchTx) error {
	type revised struct {
		at int64
		kv []byte
	}
	all := make([]revised, len(s.keys))
	for i, kv := range s.keys {
		_, at, err := keyAndRevision(kv)
		if err != nil {
			return err
		}
		all[i] = revised{at, kv}
	}
	slices.SortStableFunc(all, func(a, b revised) int { return cmp.Compare(a.at, b.at) })
	var at mvcc.Revision
	for _, r := range all {
		if r.at == at.Main {
			at.Sub++ // several keys of one transaction
		} else {
			at = mvcc.Revision{Main: r.at}
		}
		tx.UnsafeSeqPut(schema.Key, mvcc.RevToBytes(at, mvcc.NewRevBytes()), r.kv)
	}
	for _, l := range s.leases {
		schema.MustUnsafePutLease(tx, l)
	}
	mvcc.UnsafeSetScheduledCompact(tx, s.revision)
	mvcc.UnsafeSetFinishedCompact(tx, s.revision)
	return nil
}

var errKey = errors.New("a key has another format")

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

// present returns the encoded objects that exist, in the order of their revisions.
func (h *heap) present() ([][]byte, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	seen := make(map[string]struct{})
	var newest [][]byte
	for _, q := range slices.Backward(h.revisions.parts) {
		for i, kv := range slices.Backward(q.values) {
			if kv == nil { // removed
				continue
			}
			key, _, err := keyAndRevision(kv)
			if err != nil {
				return nil, err
			}
			if _, ok := seen[string(key)]; ok {
				continue
			}
			seen[string(key)] = struct{}{}
			if !mvcc.IsTombstone(q.keys[i]) {
				newest = append(newest, kv)
			}
		}
	}
	slices.Reverse(newest)
	return newest, nil
}
