package proxy

import (
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func keysOf(r *clientv3.GetResponse) string {
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return strings.Join(keys, " ")
}

// TestOwnKeysAreHidden has a client list, count, watch and delete everything through a gateway that caches: it sees its own keys,
// events and leases only, as with etcd alone.
func TestOwnKeysAreHidden(t *testing.T) {
	etcd := startEtcd(t)
	direct, a := open(t, etcd), startCached(t, etcd, startChain(t, 3, 1), Cache{})
	ctx, c := t.Context(), a.client
	events := c.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1))
	for i, key := range []string{"/m", "/netcraq", "/netcraq/gateway0", "/z"} {
		must(c.Put(ctx, key, fmt.Sprint(9-i)))(t)
	}
	a.hot(t, "/m") // so there is a directory
	if r := must(direct.Get(ctx, "/netcraq/gateway/", clientv3.WithPrefix()))(t); r.Count < 3 {
		t.Fatalf("etcd has %d keys of gateways", r.Count)
	}
	for name, test := range map[string]struct {
		options []clientv3.OpOption
		want    string
		count   int64
	}{
		"all":     {[]clientv3.OpOption{clientv3.WithPrefix()}, "/m /netcraq /netcraq/gateway0 /z", 4},
		"limited": {[]clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(3)}, "/m /netcraq /netcraq/gateway0", 4},
		"descending": {[]clientv3.OpOption{
			clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend),
		}, "/z /netcraq/gateway0 /netcraq /m", 4},
		"by value": {[]clientv3.OpOption{
			clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend), clientv3.WithKeysOnly(), clientv3.WithLimit(2),
		}, "/z /netcraq/gateway0", 4},
		"count":        {[]clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly()}, "", 4},
		"serializable": {[]clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSerializable()}, "/m /netcraq /netcraq/gateway0 /z", 4},
	} {
		r := must(c.Get(ctx, "", test.options...))(t)
		want := must(direct.Get(ctx, "", append(test.options, clientv3.WithLimit(0))...))(t)
		if keysOf(r) != test.want || r.Count != test.count || r.More != (len(test.want) > 0 && len(r.Kvs) < 4) || r.Header.Revision == 0 {
			t.Errorf("%s: %q, %+v; etcd has %q", name, keysOf(r), r, keysOf(want))
		}
	}
	if r := must(c.Get(ctx, "/netcraq/", clientv3.WithPrefix()))(t); keysOf(r) != "/netcraq/gateway0" {
		t.Errorf("a wider prefix: %v", r)
	}
	if r := must(c.Get(ctx, "/netcraq/gateway/", clientv3.WithPrefix()))(t); r.Count < 3 {
		t.Errorf("the gateways' prefix itself: %v", r)
	}
	r := must(c.Txn(ctx).Then(clientv3.OpGet("/n", clientv3.WithFromKey()), clientv3.OpGet("/z")).Commit())(t)
	if all := r.Responses[0].GetResponseRange(); all.Count != 3 || r.Responses[1].GetResponseRange().Count != 1 || !r.Succeeded {
		t.Errorf("in a transaction: %v", r)
	}
	lease := must(c.Grant(ctx, 600))(t)
	if l := must(c.Leases(ctx))(t); len(l.Leases) != 1 || l.Leases[0].ID != lease.ID {
		t.Errorf("leases %v, want %x alone", l.Leases, lease.ID)
	}
	if l := must(direct.Leases(ctx))(t); len(l.Leases) != 2 {
		t.Errorf("etcd's leases: %v", l.Leases)
	}
	hiddenFromDeletions(t, a, direct)
	seen := 0
	for answer := range events {
		for _, e := range answer.Events {
			if seen++; own(e.Kv.Key) {
				t.Errorf("an event of %s", e.Kv.Key)
			}
		}
		if seen == 10 { // as many puts and deletions as above
			break
		}
	}
}

// hiddenFromDeletions deletes everything, twice.
func hiddenFromDeletions(t *testing.T, a *cachedGateway, direct *clientv3.Client) {
	t.Helper()
	ctx, c := t.Context(), a.client
	before := must(direct.Get(ctx, "/netcraq/gateway/session/", clientv3.WithPrefix()))(t)
	if r := must(c.Delete(ctx, "", clientv3.WithPrefix(), clientv3.WithPrevKV()))(t); r.Deleted != 4 || len(r.PrevKvs) != 4 {
		t.Errorf("deleted %v", r)
	}
	must(c.Put(ctx, "/m", "again"))(t)
	r := must(c.Txn(ctx).Then(clientv3.OpDelete("", clientv3.WithPrefix())).Commit())(t)
	if r.Responses[0].GetResponseDeleteRange().Deleted != 1 {
		t.Errorf("deleted in a transaction: %v", r)
	}
	after := must(direct.Get(ctx, "/netcraq/gateway/session/", clientv3.WithPrefix()))(t)
	if before.Count != 1 || after.Count != 1 || before.Kvs[0].CreateRevision != after.Kvs[0].CreateRevision {
		t.Errorf("the gateway's session was %v, and is %v", before.Kvs, after.Kvs)
	}
	if r := a.hot(t, "/m"); r.Count != 0 {
		t.Errorf("deleted, and still %v", r)
	}
}

func TestAround(t *testing.T) {
	for _, test := range []struct {
		key, end, want string
	}{
		{"\x00", "\x00", "\x00-/netcraq/gateway/ /netcraq/gateway0-\x00"},
		{"/a", "/netcraq/gateway/b", "/a-/netcraq/gateway/"},
		{"/netcraq/gateway/b", "\x00", "/netcraq/gateway0-\x00"},
		{"/netcraq/gateway/", "/z", "/netcraq/gateway0-/z"},
		{"/netcraq/gateway/", "/netcraq/gateway0", ""},
		{"/netcraq/gateway/x", "", ""},
		{"/a", "/netcraq/gateway/", ""},
		{"/netcraq/gateway0", "\x00", ""},
	} {
		parts, covers := around([]byte(test.key), []byte(test.end))
		var text []string
		for _, p := range parts {
			text = append(text, string(p.key)+"-"+string(p.end))
		}
		if got := strings.Join(text, " "); got != test.want || covers != (test.want != "") {
			t.Errorf("%q to %q: %q, %v", test.key, test.end, got, covers)
		}
	}
}

func TestLastFragmentIsSent(t *testing.T) {
	for i, test := range []struct {
		keys                []string
		fragment, fragments bool
		left                int
		send                bool
	}{
		{[]string{"a", "/netcraq/gateway/b"}, false, false, 1, true},
		{[]string{"/netcraq/gateway/b"}, false, false, 0, false},
		{[]string{"/netcraq/gateway/b"}, true, true, 0, false},
		{[]string{"/netcraq/gateway/b"}, false, true, 0, true},
		{nil, false, false, 0, true},
	} {
		a := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 9}, Fragment: test.fragment}
		for _, key := range test.keys {
			a.Events = append(a.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: 7}})
		}
		if send := withoutOwn(a, test.fragments); send != test.send || len(a.Events) != test.left {
			t.Errorf("%d: %v, %v", i, send, a)
		}
	}
}
