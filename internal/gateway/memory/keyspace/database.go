package keyspace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Database is all that a keyspace has at one moment, history included, as a database file of etcd has it.
type Database struct {
	revisions []entry // in their order
	others    map[backend.BucketID]map[string][]byte
	bytes     int64
}

// StorageVersion is the version of etcd's files that [Database.Write] makes, and the newest that [ReadDatabase] reads.
func StorageVersion() *semver.Version {
	v := semver.Must(semver.NewVersion(version.Version))
	return &semver.Version{Major: v.Major, Minor: v.Minor}
}

// Database returns the present contents. It may run beside Apply. Keys and values are not copied.
func (k *Keyspace) Database() *Database {
	h := k.heap
	h.tx.LockOutsideApply() // between two commands
	defer h.tx.Unlock()
	d := &Database{revisions: h.all(), others: make(map[backend.BucketID]map[string][]byte), bytes: h.used.Load()}
	for id, entries := range h.others {
		d.others[id] = maps.Clone(entries)
	}
	return d
}

// Bytes is what all keys and values take.
func (d *Database) Bytes() int64 { return d.bytes }

// commitBytes is how much a transaction of the file has at most, besides one entry.
const commitBytes = 16 << 20

// Write writes a database file, which must be empty. It is not synced.
func (d *Database) Write(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	return errors.Join(d.fill(db), db.Close())
}

func (d *Database) fill(db *bbolt.DB) error {
	if err := db.Update(func(tx *bbolt.Tx) error {
		for _, bucket := range schema.AllBuckets {
			b, err := tx.CreateBucket(bucket.Name())
			if err != nil {
				return err
			}
			for _, key := range slices.Sorted(maps.Keys(d.others[bucket.ID()])) {
				if err := b.Put([]byte(key), d.others[bucket.ID()][key]); err != nil {
					return err
				}
			}
		}
		return tx.Bucket(schema.Meta.Name()).Put(schema.MetaStorageVersionName, []byte(StorageVersion().String()))
	}); err != nil {
		return err
	}
	for left := d.revisions; len(left) > 0; {
		if err := db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(schema.Key.Name())
			b.FillPercent = 0.9 // the keys are in order
			for size := 0; len(left) > 0 && size < commitBytes; left = left[1:] {
				e := left[0]
				if err := b.Put(e.at.name(), e.object); err != nil {
					return err
				}
				size += len(e.object)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// ErrDatabase: a file is not a database of etcd that can be read.
var ErrDatabase = errors.New("it is no database of an etcd that can be read")

// unlockedWithin is how long the lock of a file may take. A running etcd never gives it back.
const unlockedWithin = 100 * time.Millisecond

// openDatabase opens a file to read it.
func openDatabase(path string) (*bbolt.DB, error) {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 { // the library would write a new database into it
		return nil, fmt.Errorf("%w: it is empty", ErrDatabase)
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: unlockedWithin})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%w: another process writes it: take a file of etcdctl snapshot save, or end that etcd first",
			ErrDatabase)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDatabase, err)
	}
	return db, nil
}

// checkSize refuses a file that lacks pages which the database has or may use.
func checkSize(tx *bbolt.Tx, path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() < tx.Size() {
		err = fmt.Errorf("%w: it has %d bytes of %d, so it was cut off or is still being copied",
			ErrDatabase, info.Size(), tx.Size())
	}
	return err
}

// checkVersion refuses files of a newer etcd.
func checkVersion(tx *bbolt.Tx) error {
	meta := tx.Bucket(schema.Meta.Name())
	if meta == nil || tx.Bucket(schema.Key.Name()) == nil {
		return fmt.Errorf("%w: it has no keys", ErrDatabase)
	}
	if v := schema.ReadStorageVersionFromSnapshot(tx); v != nil && StorageVersion().LessThan(*v) {
		return fmt.Errorf("it is of etcd %d.%d, and this program knows files up to %s: use a newer netcraq", v.Major, v.Minor, StorageVersion())
	}
	return nil
}
