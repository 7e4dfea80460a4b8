package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"google.golang.org/protobuf/testing/protocmp"
)

// Save saves a snapshot as etcdctl snapshot save does, and returns the file's path.
func Save(ctx context.Context, t testing.TB, endpoint string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "snapshot.db")
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), clientv3.Config{Endpoints: []string{endpoint}}, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Restored checks a snapshot as etcdutl snapshot status does, and starts an etcd from it as etcdutl snapshot restore
// does.
func Restored(t testing.TB, path string) (*Member, etcdutl.Status) {
	t.Helper()
	status, err := etcdutl.NewV3(zap.NewNop()).Status(path)
	if err != nil {
		t.Fatal(err)
	}
	c := Start(t, 1, func(_ int, m *Member) {
		if err := etcdutl.NewV3(zap.NewNop()).Restore(etcdutl.RestoreConfig{
			SnapshotPath: path, Name: m.Name, OutputDataDir: m.Dir(), PeerURLs: []string{m.PeerURL()}, InitialCluster: m.initial,
			InitialClusterToken: "etcd-cluster",
		}); err != nil {
			t.Fatal(err)
		}
	})
	return c.Members[0], status
}

// Fill writes keys of several revisions, with a lease, deletions, a transaction and a long value.
func Fill(ctx context.Context, t testing.TB, endpoint string) {
	t.Helper()
	c := dialed(t, endpoint)
	defer c.Close() //nolint:errcheck // its calls have ended
	granted, err := c.Grant(ctx, 3600)
	if err == nil {
		_, err = c.Put(ctx, "leased", "value", clientv3.WithLease(granted.ID))
	}
	for i := 0; i < 20 && err == nil; i++ {
		_, err = c.Put(ctx, fmt.Sprintf("k%d", i%7), fmt.Sprint(i))
	}
	if err == nil {
		_, err = c.Delete(ctx, "k3")
	}
	if err == nil {
		_, err = c.Txn(ctx).Then(clientv3.OpPut("k1", "together"), clientv3.OpPut("k2", "together")).Commit()
	}
	if err == nil {
		_, err = c.Put(ctx, "long", strings.Repeat("0123456789abcdef", 6000))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// DisableAuth disables authentication with root's password.
func (m *Member) DisableAuth(ctx context.Context, t testing.TB, password string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL()}, Username: "root", Password: password})
	if err == nil {
		_, err = c.AuthDisable(ctx)
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func dialed(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Equal compares all that two etcds have: keys, revisions, history by etcd's hash, and leases with their keys. It
// returns the revision. It waits for the first answer of each.
func Equal(ctx context.Context, t testing.TB, endpoints ...string) (revision int64) {
	t.Helper()
	var hashes [2]*clientv3.HashKVResponse
	var found [2]*clientv3.GetResponse
	var leases [2]map[clientv3.LeaseID]*clientv3.LeaseTimeToLiveResponse
	for i, endpoint := range endpoints {
		c := dialed(t, endpoint)
		defer c.Close() //nolint:errcheck // its calls have ended
		var err error
		for found[i] == nil {
			if found[i], err = c.Get(ctx, "", clientv3.WithFromKey()); err != nil && ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		if hashes[i], err = c.HashKV(ctx, endpoint, 0); err != nil {
			t.Fatal(err)
		}
		leases[i] = leasesOf(ctx, t, c)
	}
	if hashes[0].Hash != hashes[1].Hash || hashes[0].CompactRevision != hashes[1].CompactRevision {
		t.Errorf("hashes %v and %v", hashes[0], hashes[1])
	}
	if diff := cmp.Diff(found[0].Kvs, found[1].Kvs, protocmp.Transform()); diff != "" {
		t.Errorf("keys: %s", diff)
	}
	if found[0].Header.Revision != found[1].Header.Revision {
		t.Errorf("revisions %d and %d", found[0].Header.Revision, found[1].Header.Revision)
	}
	if diff := cmp.Diff(leases[0], leases[1]); diff != "" {
		t.Errorf("leases: %s", diff)
	}
	return found[0].Header.Revision
}

// leasesOf returns the leases without the time that they have left.
func leasesOf(ctx context.Context, t testing.TB, c *clientv3.Client) map[clientv3.LeaseID]*clientv3.LeaseTimeToLiveResponse {
	t.Helper()
	all := make(map[clientv3.LeaseID]*clientv3.LeaseTimeToLiveResponse)
	known, err := c.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range known.Leases {
		found, err := c.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			t.Fatal(err)
		}
		found.ResponseHeader, found.TTL = nil, 0
		slices.SortFunc(found.Keys, slices.Compare)
		all[l.ID] = found
	}
	return all
}
