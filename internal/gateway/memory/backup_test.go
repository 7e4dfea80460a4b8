package memory

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// A plain etcd that was restored from a gateway's snapshot has the same keys, revisions, leases and history.
func TestSnapshotIsEtcds(t *testing.T) {
	w := newOnDisk(t)
	g := w.start("a")
	g.waitActive(t)
	etcdtest.Fill(w.ctx, t, g.address)
	must(open(t, g.address).Compact(w.ctx, 9))(t)
	m, status := etcdtest.Restored(t, etcdtest.Save(w.ctx, t, g.address))
	if revision := etcdtest.Equal(w.ctx, t, g.address, m.ClientURL()); status.Revision != revision || status.Version != "3.7.0" {
		t.Errorf("status %+v at revision %d", status, revision)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "netcraq-snapshot-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

// Requests at etcd's limit and beyond it get etcd's answers, and every gateway has the values.
func TestLongValues(t *testing.T) {
	w := newOnDisk(t)
	w.entries = 8192
	names := []string{"a", "b"}
	var gateways []*clientv3.Client
	for _, name := range names {
		gateways = append(gateways, open(t, w.start(name).address))
	}
	plain := etcdtest.Start(t, 1, nil).Members[0].Client
	for _, size := range []int{100_000, 1_000_000, 1_570_000, 1_572_864, 1_600_000, 2_000_000, 2_200_000} {
		value, key := string(bytes.Repeat([]byte{'v'}, size)), fmt.Sprint(size)
		_, want := plain.Put(w.ctx, key, value)
		for i, c := range gateways {
			_, err := c.Put(w.ctx, key, value)
			for errors.Is(err, rpctypes.ErrNoLeader) { // none is active yet
				_, err = c.Put(w.ctx, key, value)
			}
			if fmt.Sprint(err) != fmt.Sprint(want) {
				t.Errorf("%d bytes at %s: %v, and etcd: %v", size, names[i], err, want)
			}
			if want == nil && string(must(gateways[1-i].Get(w.ctx, key))(t).Kvs[0].Value) != value {
				t.Errorf("%d bytes: the other gateway has another value", size)
			}
		}
	}
}
