package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
)

// outside is an etcd that is not the controllers' own.
type outside struct {
	t      *testing.T
	member store.Embedded
	store  *store.Store
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	free := freeAddresses(t, 2)
	o := &outside{t: t, member: store.Embedded{Name: "etcd", Dir: memoryDir(t), Peers: map[string]string{"etcd": free[0]}, Client: free[1]}}
	o.start()
	t.Cleanup(func() { o.store.Close() })
	return o
}

func (o *outside) start() {
	o.t.Helper()
	var err error
	if o.store, err = store.Open(store.Options{Cluster: "host", Embedded: &o.member, Log: logOf("etcd")}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outside) stop() {
	o.t.Helper()
	if err := o.store.Close(); err != nil {
		o.t.Error(err)
	}
}

// TestEtcdAway: while etcd is away, leases and operations go on and a failure is not repaired, which is said; when it is back, all is.
func TestEtcdAway(t *testing.T) {
	etcd := newOutside(t)
	c := newClusterOn(t, etcd)
	kv := c.client()
	c.fill(kv, 20, "before")
	etcd.stop()
	c.eventually("the trouble is told", func() bool {
		return slices.ContainsFunc(c.status().GetNotes(), func(note string) bool {
			return strings.Contains(note, "etcd") && strings.Contains(note, "last good state")
		})
	})
	for end := time.Now().Add(3 * c.settings.Lease); time.Now().Before(end); { // longer than a lease that is not renewed
		c.check(kv, 20, "before")
		c.fill(kv, 20, "before")
	}
	change := c.controllers[0].view.change()
	c.nodes["n3"].serving.end()
	long := uint32(2 * c.settings.Suspect.Milliseconds())
	c.eventually("the silence is noticed", func() bool {
		return slices.ContainsFunc(c.status().GetNodes(), func(n *controllerv1.NodeStatus) bool {
			return n.GetName() == "n3" && n.GetSilentMs() > long
		})
	})
	if now := c.controllers[0].view.change(); now != change {
		t.Errorf("change %d became %d without etcd", change, now)
	}
	c.check(kv, 20, "before")
	etcd.start()
	c.fullyReplicated(2)
	c.check(kv, 20, "before")
	c.fill(kv, 20, "after")
	c.eventually("all is well again", func() bool {
		return !slices.ContainsFunc(c.status().GetNotes(), func(note string) bool { return strings.Contains(note, "last good state") })
	})
}
