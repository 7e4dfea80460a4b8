package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// put stores keys with values that begin with the key.
func put(t *testing.T, c *client.Client, keys int) {
	t.Helper()
	var ops []client.Op
	for i := range keys {
		ops = append(ops, client.PutOp(fmt.Sprint("key ", i), valueOf(i)))
	}
	for i, o := range c.Do(t.Context(), ops) {
		if o.Err != nil {
			t.Fatalf("key %d: %v", i, o.Err)
		}
	}
}

func valueOf(i int) []byte { return []byte(fmt.Sprint(i, ":", strings.Repeat("v", i%200))) }

func compare(t *testing.T, c *client.Client, keys int, deleted func(i int) bool) {
	t.Helper()
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprint("key ", i))
	}
	for i, o := range c.GetMany(t.Context(), names) {
		if deleted(i) {
			if !errors.Is(o.Err, client.ErrNotFound) {
				t.Errorf("key %d was deleted: %q, %v", i, o.Value, o.Err)
			}
		} else if o.Err != nil || string(o.Value) != string(valueOf(i)) {
			t.Errorf("key %d: %q, %v", i, o.Value, o.Err)
		}
	}
}

// A cluster with other shards has the same data after a restore of a backup that was made under load.
func TestBackupAndRestore(t *testing.T) {
	const keys = 5000
	from := startCluster(t, 3, chain.Options{Shards: 8, CellBytes: 256, MaxObjects: 10_000})
	put(t, from.client, keys)
	deleted := func(i int) bool { return i%10 == 0 }
	for i := range keys {
		if !deleted(i) {
			continue
		}
		if _, err := from.client.Delete(t.Context(), fmt.Sprint("key ", i)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(i int) {
		if _, err := from.client.Put(t.Context(), "written", strconv.AppendInt(nil, int64(i), 10)); err != nil {
			t.Error(err)
		}
	}
	write(0)
	first, stop, written := make(chan struct{}), make(chan struct{}), make(chan int)
	go func() {
		for i := 1; ; i++ {
			write(i)
			if i == 1 {
				close(first)
			}
			select {
			case <-stop:
				written <- i
				return
			default:
			}
		}
	}()
	end := sync.OnceValue(func() int {
		close(stop)
		return <-written
	})
	defer end()
	<-first
	path := filepath.Join(t.TempDir(), "snapshot")
	report := from.backup(t, path)
	last := end()
	if report.Objects != keys-keys/10+1 || report.Retries != 0 || report.Shards != 8 || report.CellBytes != 256 {
		t.Errorf("%+v", report)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != report.FileBytes || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	to := startCluster(t, 2, chain.Options{Shards: 16, CellBytes: 256, MaxObjects: 10_000})
	o := RestoreOptions{Client: to.client, Agents: dial, DryRun: true}
	if dry, err := Restore(t.Context(), path, o); err != nil || dry.Restored != 0 || dry.Objects != report.Objects {
		t.Fatalf("%+v, %v", dry, err)
	}
	compare(t, to.client, keys, func(int) bool { return true })
	o.DryRun = false
	if restored, err := Restore(t.Context(), path, o); err != nil || restored.Restored != report.Objects {
		t.Fatalf("%+v, %v", restored, err)
	}
	compare(t, to.client, keys, deleted)
	r, err := to.client.Get(t.Context(), "written")
	if n, atoiErr := strconv.Atoi(string(r.Value)); err != nil || atoiErr != nil || n < 1 || n > last {
		t.Errorf("written: %q of 1 to %d, %v", r.Value, last, err)
	}
}

func TestFileIsNotReplaced(t *testing.T) {
	c := startCluster(t, 1, chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 10})
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot")
	c.backup(t, path)
	o := BackupOptions{Client: c.client, Agents: dial}
	if _, err := Backup(t.Context(), path, o); err == nil {
		t.Error("a file was replaced")
	}
	o.Replace = true
	if _, err := Backup(t.Context(), path, o); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Backup(ctx, filepath.Join(dir, "other"), o); err == nil {
		t.Error("cancelled, and done")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The tail's agent is gone: another member is asked, and nothing is in the file twice.
func TestAnotherMemberIsAsked(t *testing.T) {
	c := startCluster(t, 3, chain.Options{Shards: 4, CellBytes: 256, MaxObjects: 1000})
	put(t, c.client, 500)
	c.stop[2]()
	path := filepath.Join(t.TempDir(), "snapshot")
	report := c.backup(t, path)
	if report.Objects != 500 || report.Retries != 1 {
		t.Errorf("%+v", report)
	}
}

// A copy that broke off is taken back.
func TestWhatBrokeOffIsTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := newWriter(file, &Header{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int, value string) {
		for i := range n {
			if err := w.add(&Object{Key: wire.Key{Lo: uint64(i)}, Version: 1, Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(10, "kept")
	m, err := w.mark()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		add(1000, strings.Repeat("lost", 300))
		if err := w.back(m); err != nil {
			t.Fatal(err)
		}
	}
	add(20, "kept")
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	_, totals, err := Verify(file, func(o *Object) error {
		if string(o.Value) != "kept" {
			t.Errorf("%q", o.Value)
		}
		return nil
	})
	if err != nil || totals != (Totals{30, 120, 2}) {
		t.Errorf("%+v, %v", totals, err)
	}
}

// A value that is not committed where it was copied is read from the chain instead.
func TestUnsettledObjectsAreRead(t *testing.T) {
	c := startCluster(t, 2, chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 100})
	if _, err := c.client.Put(t.Context(), "k", []byte("committed")); err != nil {
		t.Fatal(err)
	}
	key := func(name string) []byte {
		k, err := wire.HashKey([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 0, 16)
		for _, half := range []uint64{k.Hi, k.Lo} {
			for shift := 56; shift >= 0; shift -= 8 {
				b = append(b, byte(half>>shift))
			}
		}
		return b
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := newWriter(file, &Header{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := export{
		backup: &backup{options: &BackupOptions{Client: c.client}, writer: w}, shards: []uint32{0}, all: 1, seen: make(map[wire.Key]struct{}),
	}
	err = e.take(t.Context(), []*agentv1.ExportedObject{
		{Key: key("k"), Version: 2, Committed: 1, Value: []byte("not committed")},
		{Key: key("new"), Version: 1, Committed: 0, Value: []byte("not committed")},
		{Key: key("k"), Version: 1, Committed: 1, Value: []byte("again")},
		{Key: key("gone"), Version: 5, Committed: 5, Tombstone: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	var values []string
	if _, _, err := Verify(file, func(o *Object) error { values = append(values, string(o.Value)); return nil }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(values) != "[committed]" {
		t.Errorf("%q", values)
	}
	for name, wrong := range map[string]*agentv1.ExportedObject{
		"short key": {Key: []byte("k"), Version: 1, Committed: 1},
		"long":      {Key: key("l"), Version: 1, Committed: 1, Value: make([]byte, wire.MaxValueBytes+1)},
	} {
		if err := e.take(t.Context(), []*agentv1.ExportedObject{wrong}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	e.all, e.shards = 2, []uint32{0}
	if err := e.take(t.Context(), []*agentv1.ExportedObject{{Key: append(make([]byte, 15), 1), Version: 1, Committed: 1}}); err == nil {
		t.Error("a key of another shard: taken")
	}
}

// Before anything changes, a restore finds out that there is no room.
func TestNoRoom(t *testing.T) {
	from := startCluster(t, 1, chain.Options{Shards: 2, CellBytes: 256, MaxObjects: 1000})
	put(t, from.client, 300)
	path := filepath.Join(t.TempDir(), "snapshot")
	from.backup(t, path)

	short := startCluster(t, 2, chain.Options{Shards: 4, CellBytes: 100, MaxObjects: 1000})
	if _, err := Restore(t.Context(), path, RestoreOptions{Client: short.client, Agents: dial}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("values too long: %v", err)
	}
	small := startCluster(t, 2, chain.Options{Shards: 4, CellBytes: 256, MaxObjects: 299})
	o := RestoreOptions{Client: small.client, Agents: dial}
	if _, err := Restore(t.Context(), path, o); !errors.Is(err, ErrNoRoom) {
		t.Errorf("too many objects: %v", err)
	}
	for _, c := range []*testCluster{short, small} {
		if usage, err := c.planes[0].Usage(); err != nil || usage.Objects != 0 {
			t.Errorf("%+v, %v", usage, err)
		}
	}
	// Keys that are there already need no room.
	tight := startCluster(t, 2, chain.Options{Shards: 4, CellBytes: 256, MaxObjects: 310})
	put(t, tight.client, 150)
	if _, err := Restore(t.Context(), path, RestoreOptions{Client: tight.client, Agents: dial}); err != nil {
		t.Error(err)
	}
	compare(t, tight.client, 300, func(int) bool { return false })
}
