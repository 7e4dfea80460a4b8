package keyspace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// Snapshot is the keys and leases at one revision, without their history.
type Snapshot struct {
	revision int64
	leases   []*leasepb.Lease
	keys     []*mvccpb.KeyValue
}

// Snapshot returns the present keys and leases. It must not run beside Apply.
func (k *Keyspace) Snapshot() (*Snapshot, error) {
	all, err := k.all()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{revision: all.Rev, keys: all.KVs}
	for _, l := range k.leases.Leases() {
		s.leases = append(s.leases, &leasepb.Lease{ID: int64(l.ID), TTL: l.TTL()})
	}
	return s, nil
}

// Encode compresses a snapshot. [Restore] reads it.
func (s *Snapshot) Encode() ([]byte, error) {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	b := binary.AppendUvarint(nil, uint64(s.revision))
	b = binary.AppendUvarint(b, uint64(len(s.leases)))
	b = binary.AppendUvarint(b, uint64(len(s.keys)))
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	put := func(m proto.Message) error {
		b = binary.AppendUvarint(b[:0], uint64(proto.Size(m)))
		if b, err = (proto.MarshalOptions{}).MarshalAppend(b, m); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	for _, l := range s.leases {
		if err := put(l); err != nil {
			return nil, err
		}
	}
	for _, kv := range s.keys {
		if err := put(kv); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Restore makes a keyspace from an encoded snapshot. Its history begins at the snapshot's revision.
func Restore(encoded io.Reader) (*Keyspace, error) {
	r, err := zstd.NewReader(encoded, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("the snapshot cannot be read: %w", err)
	}
	defer r.Close()
	s, err := decode(bufio.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("the snapshot cannot be read: %w", err)
	}
	return open(s.fill)
}

// maxMessageBytes bounds a key with its value in a snapshot.
const maxMessageBytes = 1 << 30

func decode(r *bufio.Reader) (*Snapshot, error) {
	var numbers [3]uint64
	for i := range numbers {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, err
		}
		numbers[i] = n
	}
	get := func(m proto.Message) error {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		if n > maxMessageBytes {
			return fmt.Errorf("a message of %d bytes", n)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		return proto.Unmarshal(b, m)
	}
	s := &Snapshot{revision: int64(numbers[0])}
	for range numbers[1] {
		l := new(leasepb.Lease)
		if err := get(l); err != nil {
			return nil, err
		}
		s.leases = append(s.leases, l)
	}
	for range numbers[2] {
		kv := new(mvccpb.KeyValue)
		if err := get(kv); err != nil {
			return nil, err
		}
		s.keys = append(s.keys, kv)
	}
	return s, nil
}

// fill writes a snapshot into a file as if it had been compacted at its revision.
func (s *Snapshot) fill(tx backend.BatchTx) error {
	slices.SortStableFunc(s.keys, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	var at mvcc.Revision
	for _, kv := range s.keys {
		if kv.ModRevision == at.Main {
			at.Sub++ // several keys of one transaction
		} else {
			at = mvcc.Revision{Main: kv.ModRevision}
		}
		value, err := proto.Marshal(kv)
		if err != nil {
			return err
		}
		tx.UnsafeSeqPut(schema.Key, mvcc.RevToBytes(at, mvcc.NewRevBytes()), value)
	}
	for _, l := range s.leases {
		schema.MustUnsafePutLease(tx, l)
	}
	mvcc.UnsafeSetScheduledCompact(tx, s.revision)
	mvcc.UnsafeSetFinishedCompact(tx, s.revision)
	return nil
}
