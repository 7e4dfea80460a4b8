package etcdstudy

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/internal/platform/owned"
)

// storeAlone measures puts into etcd's store in this process, with the same concurrency: a put
// without API, Raft and WAL. The study compares with the same.
func storeAlone(ctx context.Context, l Load) (perSecond float64, err error) {
	dir, err := owned.Dir("/dev/shm", "netcraq-study-", os.RemoveAll)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := zap.NewNop()
	disk := backend.NewDefaultBackend(log, filepath.Join(dir, "db"))
	defer func() { err = errors.Join(err, disk.Close()) }()
	store := mvcc.New(log, disk, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer store.Close()
	value := []byte(strings.Repeat("v", l.ValueBytes))
	var names [][]byte
	for _, name := range keys(keySpace, l.KeyBytes) {
		names = append(names, []byte(name))
	}
	clients := make([]operation, l.Clients)
	for i := range clients {
		random := rand.New(rand.NewPCG(l.Seed, uint64(i)))
		clients[i] = func(context.Context) (int, error) {
			store.Put(names[random.IntN(len(names))], value, lease.NoLease)
			return 0, nil
		}
	}
	nothing := func() error { return nil }
	loop, err := runClosed(ctx, clients, 1, l.Duration, nothing, nothing)
	if err != nil {
		return 0, err
	}
	return loop.perSecond(0), nil
}
