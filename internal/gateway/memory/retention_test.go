package memory

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// TestKeeps: history is forgotten when there is too much of it, by revisions or by bytes, and sooner in a keyspace
// that is nearly full.
func TestKeeps(t *testing.T) {
	const quota, revisions = 800, 1000
	for name, test := range map[string]struct {
		u         usage
		forget    bool
		keepBytes int64
	}{
		"little":             {usage{revision: 1200, compacted: 100, bytes: 300, since: 200}, false, 0},
		"revisions":          {usage{revision: 1400, compacted: 100, bytes: 300, since: 200}, true, 200},
		"bytes":              {usage{revision: 200, compacted: 100, bytes: 400, since: 251}, true, 200},
		"nearly full":        {usage{revision: 200, compacted: 100, bytes: 701, since: 51}, true, 25},
		"full, but just now": {usage{revision: 200, compacted: 100, bytes: 701, since: 50}, false, 0},
		"full for long":      {usage{revision: 200, compacted: 100, bytes: 701, since: 1, idle: 2 * fullEvery}, true, 25},
		"nothing to forget":  {usage{revision: 100, compacted: 100, bytes: 799, since: 0, idle: time.Hour}, false, 0},
	} {
		keep, bytes, forget := test.u.keeps(quota, revisions)
		if forget != test.forget || bytes != test.keepBytes || forget && keep != revisions {
			t.Errorf("%s: %v, %d bytes, %d revisions; want %v, %d bytes", name, forget, bytes, keep, test.forget,
				test.keepBytes)
		}
	}
}

// TestHistoryIsBounded: the history of an object takes no more than the quota, however long it is, at every gateway,
// and no write is refused because of it. Objects are refused beyond the quota, and taken again when others are
// deleted. A gateway that starts takes no more than those that run.
func TestHistoryIsBounded(t *testing.T) {
	const quota, value, writes = 16 << 20, 100 << 10, 1000 // 100 MB
	a := start(t, startChain(t), Options{QuotaBytes: quota})
	a.waitActive(t)
	b := start(t, a.cluster, Options{QuotaBytes: quota})
	c, text := open(t, a.address), strings.Repeat("x", value)
	bounded := func(when string, most int64, gateways ...*gateway) {
		t.Helper()
		for _, g := range gateways {
			if n := g.current().Bytes(); n > most+value {
				t.Errorf("%s: %d bytes, want at most %d", when, n, most)
			}
		}
	}
	for i := range writes {
		must(c.Put(t.Context(), "k", text))(t)
		if i%50 == 0 {
			bounded("one object", quota*3/4, a, b) // its history has a third of that, and grows while some of it is forgotten
		}
	}
	history := must(c.Get(t.Context(), "k"))(t).Header.Revision - 20
	if r := must(c.Get(t.Context(), "k", clientv3.WithRev(history)))(t); len(r.Kvs) != 1 {
		t.Errorf("revision %d is gone: %v", history, r)
	}
	n := 0
	for ; ; n++ {
		_, err := c.Put(t.Context(), fmt.Sprintf("full/%d", n), text)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if least := (quota - value) / (value + 1024); n < least {
		t.Errorf("%d objects fit, want %d", n, least)
	}
	bounded("full", quota, a, b)
	must(c.Get(t.Context(), "k"))(t)
	late := start(t, a.cluster, Options{QuotaBytes: quota})
	cl := open(t, late.address)
	count := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable()}
	if r := must(cl.Get(t.Context(), "full/", count...))(t); r.Count != int64(n) {
		t.Errorf("a gateway that starts has %d objects, want %d", r.Count, n)
	}
	bounded("a gateway that starts", quota, late)
	must(c.Delete(t.Context(), "full/", clientv3.WithPrefix()))(t)
	must(c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}))(t)
	must(c.Put(t.Context(), "full/0", text))(t)
	for _, g := range []*gateway{a, b, late} { // the deletion itself is above the quota until history is forgotten
		eventually(t, "a deletion makes room", func() bool { return g.current().Bytes() <= quota })
	}
}

// TestQueuedWritesCount: writes that are queued count towards the quota, with the values that they write again, until
// they are applied or given up. Others wait for it.
func TestQueuedWritesCount(t *testing.T) {
	const quota, value = 16 << 20, 1 << 20
	a := start(t, startChain(t), Options{QuotaBytes: quota})
	a.waitActive(t)
	l := a.where().lead
	for name, put := range map[string]*pb.PutRequest{
		"values":        {Key: []byte("k"), Value: make([]byte, value)},
		"values before": {Key: []byte("k"), IgnoreValue: true},
	} {
		var queued []*proposal
		next := func() *proposal {
			return &proposal{command: keyspace.CommandOf(&pb.InternalRaftRequest{Put: put})}
		}
		p := next()
		for ; l.reserve(p) == nil && len(queued) <= quota/value; p = next() {
			queued = append(queued, p)
		}
		if n := len(queued); n < quota/value/2 || n >= quota/value {
			t.Errorf("%s: %d writes of 1 MiB are queued, and the quota suffices for 15", name, n)
		}
		waited := make(chan error)
		go func() { waited <- l.await(t.Context(), p) }()
		for i, q := range queued {
			q.release()
			if i == len(queued)/2 {
				if err := <-waited; err != nil {
					t.Errorf("%s: %v", name, err)
				}
				p.release()
			}
		}
		if l.reserved.queued != 0 {
			t.Errorf("%s: %d bytes are reserved for nothing", name, l.reserved.queued)
		}
	}
}

// TestManyWritesAtOnce: the keyspace keeps its quota though the writes that are under way at a time are larger, and none
// of them is refused. They leave nothing reserved.
func TestManyWritesAtOnce(t *testing.T) {
	const quota, value, writers, writes = 16 << 20, 512 << 10, 64, 4
	a := start(t, startChain(t), Options{QuotaBytes: quota, LogEntries: 4096})
	a.waitActive(t)
	text := strings.Repeat("x", value)
	var group sync.WaitGroup
	for range writers {
		c := open(t, a.address)
		group.Go(func() {
			for range writes {
				if _, err := c.Put(t.Context(), "k", text); err != nil {
					t.Error(err)
				}
				if n := a.current().Bytes(); n > quota {
					t.Errorf("%d bytes, the quota is %d", n, quota)
				}
			}
		})
	}
	group.Wait()
	if l := a.where().lead; l.reserved.queued != 0 {
		t.Errorf("%d bytes are reserved for nothing", l.reserved.queued)
	}
}
