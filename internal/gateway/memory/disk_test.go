package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/credentials"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
	"github.com/netcraq/netcraq/internal/keyspace/local"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// onDisk has the parts of a keyspace on disks.
type onDisk struct {
	t       *testing.T
	ctx     context.Context
	cluster *topology.Cluster
	near    *local.Near
	dir     string
	entries int // of the log
	tokens  keyspace.Tokens
	quota   int64 // 0: the default
}

func newOnDisk(t *testing.T) *onDisk {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	near, err := local.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return &onDisk{t: t, ctx: ctx, cluster: startChain(t), near: near, dir: t.TempDir(), entries: 256}
}

// start starts the gateway of a name.
func (w *onDisk) start(name string) *gateway {
	w.t.Helper()
	o := Options{ID: 7, Secret: w.near.Secret(), Tokens: w.tokens, QuotaBytes: w.quota}
	o.Disk = func(o driver.Options, _ credentials.TransportCredentials) (*driver.Driver, error) {
		o.Dir, o.Member, o.Record, o.Peers = filepath.Join(w.dir, name), name, w.near, w.near
		o.Log = chainlog.NewEras(softchain.Connect(w.t, w.cluster), nil, "default", 7, w.entries)
		o.CheckpointBytes = 64 << 10
		return driver.Open(o)
	}
	g := start(w.t, w.cluster, o)
	w.near.Join(g.address, g.Handler())
	return g
}

// kill ends a gateway. Its disk has what it had.
func (w *onDisk) kill(g *gateway) {
	w.near.Leave(g.address)
	g.kill()
}

// forget makes the chain lose the log.
func (w *onDisk) forget(g *gateway) {
	w.t.Helper()
	s := g.disk.Status()
	log := chainlog.NewEras(softchain.Connect(w.t, w.cluster), nil, "default", 7, 256)
	if err := log.Remove(w.ctx, s.Record.Active.Number); err != nil {
		w.t.Fatal(err)
	}
}

// All gateways are killed and the chain loses the log. Every acknowledged write is there again, leases included, and each
// gateway answers linearizable reads of it.
func TestDisksKeepEverything(t *testing.T) {
	w := newOnDisk(t)
	names := []string{"a", "b", "c"}
	want := make(map[string]string)
	var lease clientv3.LeaseID
	revision := int64(0)
	for round := range 3 {
		var all []*gateway
		for _, name := range names {
			all = append(all, w.start(name))
		}
		for i, g := range all {
			c := open(t, g.address)
			key := fmt.Sprintf("key-%d-%d", round, i)
			put := again(func() (*clientv3.PutResponse, error) { return c.Put(w.ctx, key, "value") })(t)
			want[key] = "value"
			if put.Header.Revision <= revision {
				t.Errorf("revision %d after %d", put.Header.Revision, revision)
			}
			revision = put.Header.Revision
			if lease == 0 {
				lease = again(func() (*clientv3.LeaseGrantResponse, error) { return c.Grant(w.ctx, 3600) })(t).ID
			}
		}
		for _, g := range all {
			c := open(t, g.address)
			found := again(func() (*clientv3.GetResponse, error) { return c.Get(w.ctx, "key", clientv3.WithPrefix()) })(t)
			for _, kv := range found.Kvs {
				if want[string(kv.Key)] != string(kv.Value) {
					t.Errorf("%s is %q", kv.Key, kv.Value)
				}
			}
			if len(found.Kvs) != len(want) || found.Header.Revision != revision {
				t.Errorf("round %d: %d keys at revision %d, want %d at %d", round, len(found.Kvs), found.Header.Revision, len(want), revision)
			}
			left := again(func() (*clientv3.LeaseTimeToLiveResponse, error) { return c.TimeToLive(w.ctx, lease) })(t)
			if left.TTL <= 0 {
				t.Errorf("round %d: the lease is gone", round)
			}
		}
		for _, g := range all {
			w.kill(g)
		}
		w.forget(all[0])
	}
}

// The pages of a gateway without a majority of the disks name the gateways that it waits for and the command: before a
// write, while the active gateway still answers reads, and after it.
func TestReadyzSaysWhy(t *testing.T) {
	w := newOnDisk(t)
	all := map[string]*gateway{"a": w.start("a"), "b": w.start("b"), "c": w.start("c")}
	active := w.active(maps.Values(all))
	var away []string
	for name, g := range all {
		if g != active {
			w.kill(g)
			away = append(away, name)
		}
	}
	slices.Sort(away)
	want := "start the gateways of " + strings.Join(away, ", ") + "; see netcraq give-up-disks"
	pages := func() {
		t.Helper()
		for _, page := range []string{"/readyz", "/health"} {
			for text := ""; !strings.Contains(text, want); {
				answer, err := http.Get("http://" + active.address + page)
				if err != nil || w.ctx.Err() != nil {
					t.Fatal(text, err)
				}
				body, err := io.ReadAll(answer.Body)
				if text = string(body); errors.Join(err, answer.Body.Close()) != nil {
					t.Fatal(err)
				}
			}
		}
	}
	pages()
	put, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	_, _ = open(t, active.address).Put(put, "key", "value") // no majority syncs it, so reads wait for what becomes of it
	pages()
}

// A gateway that starts from a checkpoint has the history before it: a watch of the first revision misses nothing.
func TestCheckpointsHaveHistory(t *testing.T) {
	w := newOnDisk(t)
	puts := 0
	for !w.checkpointed("a") { // one is written beside the puts
		g := w.start("a")
		c := open(t, g.address)
		for range 40 {
			put := func() (*clientv3.PutResponse, error) { return c.Put(w.ctx, "key", strings.Repeat("v", 4<<10)) }
			again(put)(t)
			puts++
		}
		w.kill(g)
	}
	watch := open(t, w.start("a").address).Watch(w.ctx, "key", clientv3.WithRev(1))
	for seen := 0; seen < puts; {
		answer, ok := <-watch
		if !ok || answer.Err() != nil {
			t.Fatalf("the watch has ended after %d events of %d: %v", seen, puts, answer.Err())
		}
		seen += len(answer.Events)
	}
}

// A request above etcd's limit has etcd's code at every gateway and changes nothing, and one below it is kept.
func TestRequestsAboveTheLimit(t *testing.T) {
	w := newOnDisk(t)
	w.entries = 4096
	names := []string{"a", "b", "c"}
	var all []*gateway
	for _, name := range names {
		all = append(all, w.start(name))
	}
	w.active(slices.Values(all)) // no era ends from now on
	revision := int64(0)
	for i, g := range all {
		c := open(t, g.address)
		const most = serve.DefaultMaxRequestBytes
		put := func(n int) func() (*clientv3.PutResponse, error) {
			return func() (*clientv3.PutResponse, error) { return c.Put(w.ctx, names[i], strings.Repeat("v", n)) }
		}
		last := again(put(most - 100))(t).Header.Revision
		if _, err := put(most)(); !errors.Is(err, rpctypes.ErrRequestTooLarge) {
			t.Errorf("%s: %v", names[i], err)
		}
		found := again(func() (*clientv3.GetResponse, error) { return c.Get(w.ctx, names[i]) })(t)
		if last <= revision || found.Header.Revision != last || len(found.Kvs[0].Value) != most-100 {
			t.Errorf("%s: %d bytes at revision %d, want %d", names[i], len(found.Kvs[0].Value), found.Header.Revision, last)
		}
		revision = last
	}
	for _, g := range all {
		w.kill(g)
	}
	c := open(t, w.start("a").address)
	w.start("b")
	found := again(func() (*clientv3.GetResponse, error) { return c.Get(w.ctx, "", clientv3.WithFromKey()) })(t)
	if len(found.Kvs) != len(names) || found.Header.Revision != revision {
		t.Errorf("%d keys at revision %d after a restart, want %d", len(found.Kvs), found.Header.Revision, revision)
	}
}

// While a batch waits for the disks, proposals gather, and make one batch.
func TestProposalsGather(t *testing.T) {
	w := newOnDisk(t)
	all := map[string]*gateway{"a": w.start("a"), "b": w.start("b"), "c": w.start("c")}
	active := w.active(maps.Values(all))
	for name, g := range all {
		if g != active {
			w.kill(g)
			delete(all, name)
		}
	}
	const puts = 20
	before, c := active.disk.Status().At.Next, open(t, active.address)
	var putting errgroup.Group
	put := func(i int) {
		putting.Go(func() error {
			_, err := c.Put(w.ctx, fmt.Sprint("key-", i), "value")
			return err
		})
	}
	put(0)
	eventually(t, "the first put is in the log", func() bool { return active.disk.Status().At.Next == before+1 })
	for i := range puts {
		put(i)
	}
	queue := active.where().lead.proposals
	eventually(t, "the others wait", func() bool {
		queue.mu.Lock()
		defer queue.mu.Unlock()
		return len(queue.waiting) == puts
	})
	for _, name := range []string{"a", "b", "c"} {
		if all[name] == nil {
			w.start(name)
		}
	}
	if err := putting.Wait(); err != nil {
		t.Fatal(err)
	}
	if now := active.disk.Status().At.Next; now != before+2 {
		t.Errorf("%d entries for a put and %d that wait", now-before, puts)
	}
}

// active waits until a gateway is active and three disks count.
func (w *onDisk) active(all iter.Seq[*gateway]) (active *gateway) {
	w.t.Helper()
	eventually(w.t, "a gateway is active and three disks count", func() bool {
		for g := range all {
			if s := g.disk.Status(); g.where().lead != nil && s.Entered && len(s.Record.Active.Set) == 3 {
				active = g
			}
		}
		return active != nil
	})
	return active
}

// checkpointed reports whether the disk of a gateway that does not run begins with a state.
func (w *onDisk) checkpointed(name string) bool {
	j, err := journal.Open(filepath.Join(w.dir, name), "default", 7, name)
	if err != nil {
		w.t.Fatal(err)
	}
	defer j.Close()
	index, _, err := j.State()
	if err != nil {
		w.t.Fatal(err)
	}
	return index > 0
}
