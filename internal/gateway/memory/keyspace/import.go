package keyspace

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// ReadDatabase reads the keys with their history, the leases and the users from a database file of etcd. All that
// concerns the etcd's members is left out.
func ReadDatabase(path string) (s *Snapshot, err error) {
	db, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // the file is mapped, and may be shorter than it says
	defer func() {
		if p := recover(); p != nil { // the library panics on pages that it cannot read
			s, err = nil, fmt.Errorf("%w: %v", ErrDatabase, p)
		}
		_ = db.Close() // it was only read
	}()
	s = new(Snapshot)
	return s, db.View(func(tx *bbolt.Tx) error {
		if err := checkSize(tx, path); err != nil {
			return err
		}
		if err := checkVersion(tx); err != nil {
			return err
		}
		if err := s.readRevisions(tx); err != nil {
			return err
		}
		if err := s.readUsers(tx); err != nil {
			return err
		}
		return s.readLeases(tx)
	})
}

// Revision is the revision of the snapshot.
func (s *Snapshot) Revision() int64 {
	revision := max(s.compacted, 1)
	if n := len(s.revisions); n > 0 {
		revision = max(revision, int64(s.revisions[n-1].at.main))
	}
	return revision
}

// Leases is the number of leases.
func (s *Snapshot) Leases() int { return len(s.leases) }

func (s *Snapshot) readRevisions(tx *bbolt.Tx) error {
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		if at, ok := revisionOf(tx.Bucket(schema.Meta.Name()).Get(name)); ok {
			s.compacted = max(s.compacted, at.Main)
		}
	}
	var all revisions
	err := tx.Bucket(schema.Key.Name()).ForEach(func(name, object []byte) error {
		if err := all.add(name, bytes.Clone(object)); err != nil {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
		return nil
	})
	s.revisions = all.entries
	if err == nil && s.Revision() == math.MaxInt64 {
		err = fmt.Errorf("%w: no revision is left", ErrDatabase)
	}
	return err
}

func (s *Snapshot) readLeases(tx *bbolt.Tx) error {
	leases := tx.Bucket(schema.Lease.Name())
	if leases == nil {
		return nil
	}
	return leases.ForEach(func(_, value []byte) error {
		l := new(leasepb.Lease)
		if err := proto.Unmarshal(value, l); err != nil || l.ID == 0 {
			return fmt.Errorf("%w: a lease", ErrDatabase)
		}
		s.leases = append(s.leases, &leasepb.Lease{ID: l.ID, TTL: l.TTL})
		return nil
	})
}

// ReadFile reads a file of etcdctl snapshot save, whose end is its hash.
func ReadFile(path string, skipHash bool) (*Snapshot, error) {
	if !skipHash {
		if err := checkHash(path); err != nil {
			return nil, err
		}
	}
	return ReadDatabase(path)
}

func checkHash(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const sector = 512 // a database is whole sectors
	size := info.Size() - sha256.Size
	if size < 0 || size%sector != 0 {
		return fmt.Errorf("%w: it does not end with a hash. If it was not made by etcdctl snapshot save, use --skip-hash-check", ErrDatabase)
	}
	sum, said := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyN(sum, f, size); err != nil {
		return err
	}
	if _, err := io.ReadFull(f, said); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), said) {
		return fmt.Errorf("%w: its hash is wrong, so it is damaged or incomplete", ErrDatabase)
	}
	return nil
}
