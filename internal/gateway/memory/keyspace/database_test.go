package keyspace

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/netcraq/netcraq/internal/platform/seedtest"
)

// written returns the path of a database file with what random commands have made, and the keyspace.
func written(t *testing.T) (*Keyspace, string) {
	t.Helper()
	random := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	k := newKeyspace(t)
	for range 400 {
		_, _ = apply(t, k, command(random)) // a lease may not exist
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := k.Database().Write(path); err != nil {
		t.Fatal(err)
	}
	return k, path
}

// What is read from a database file is what the keyspace's own snapshot has.
func TestDatabase(t *testing.T) {
	k, path := written(t)
	defer k.Close()
	read, err := ReadDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	own := k.Snapshot()
	if !slices.EqualFunc(read.revisions, own.revisions, func(a, b entry) bool {
		return a.at == b.at && bytes.Equal(a.object, b.object)
	}) || read.Revision() != k.Revision() || read.Leases() != len(own.leases) {
		t.Errorf("revision %d and %d leases, want %d and %d, with the same history", read.Revision(), read.Leases(), k.Revision(), len(own.leases))
	}
	restored := restore(t, read)
	defer restored.Close()
	compareAll(t, restored, k)
}

// A file that an etcd has open is refused at once: what it has may be half of a change.
func TestDatabaseInUse(t *testing.T) {
	k, path := written(t)
	defer k.Close()
	used, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ReadFile(path, true)
	if !errors.Is(err, ErrDatabase) || !strings.Contains(err.Error(), "etcdctl snapshot save") {
		t.Error(err)
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path, true); err != nil {
		t.Error(err)
	}
}

// A file without its last page is refused, although no key was there, and so is an empty one.
func TestDatabaseCutOff(t *testing.T) {
	k, path := written(t)
	defer k.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	used := info.Size()
	if err := errors.Join(db.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil }), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cut off", "empty"} {
		size := used - 1
		if want == "empty" {
			size = 0
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path, true); !errors.Is(err, ErrDatabase) || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d bytes: %v", size, err)
		}
	}
}

// A file of a newer etcd, with a damaged user, without a hash, with a wrong one, or of something else is
// refused.
func TestDatabaseRefused(t *testing.T) {
	for want, change := range map[string]func(*bbolt.Tx) error{
		"use a newer netcraq": func(tx *bbolt.Tx) error {
			return tx.Bucket(schema.Meta.Name()).Put(schema.MetaStorageVersionName, []byte("3.99.0"))
		},
		"a user, a role": func(tx *bbolt.Tx) error {
			return tx.Bucket(schema.AuthUsers.Name()).Put([]byte("root"), []byte("x"))
		},
		"a setting of authentication": func(tx *bbolt.Tx) error {
			return tx.Bucket(schema.Auth.Name()).Put(schema.AuthRevisionKeyName, []byte{1})
		},
		"it has no keys":                func(tx *bbolt.Tx) error { return tx.DeleteBucket(schema.Key.Name()) },
		"a revision has another format": func(tx *bbolt.Tx) error { return tx.Bucket(schema.Key.Name()).Put([]byte{0xff}, nil) },
		"a lease":                       func(tx *bbolt.Tx) error { return tx.Bucket(schema.Lease.Name()).Put([]byte("x"), []byte("x")) },
		"a key has another format": func(tx *bbolt.Tx) error {
			return tx.Bucket(schema.Key.Name()).Put([]byte("\x00\x00\x00\x00\x00\x01\x00\x00_\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("x"))
		},
	} {
		k, path := written(t)
		k.Close()
		db, err := bbolt.Open(path, 0, nil)
		if err == nil {
			err = errors.Join(db.Update(change), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDatabase(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, path := written(t)
	if _, err := ReadFile(path, false); err == nil || !strings.Contains(err.Error(), "--skip-hash-check") {
		t.Errorf("without a hash: %v", err)
	}
	if _, err := ReadFile(path, true); err != nil {
		t.Error(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := ReadFile(path, false); err == nil || !strings.Contains(err.Error(), "hash is wrong") {
		t.Errorf("with a wrong hash: %v", err)
	}
}

// A damaged file is refused, or what is left of it is read. It never ends the process.
func TestDamagedDatabase(t *testing.T) {
	k, path := written(t)
	k.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed of the damage %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		damaged := bytes.Clone(whole)
		for range 1 + random.IntN(8) {
			damaged[random.IntN(len(damaged))] = byte(random.Uint32())
		}
		if random.IntN(4) == 0 {
			damaged = damaged[:random.IntN(len(damaged))]
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadDatabase(path); err == nil {
			if err := s.Write(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
	}
}
