package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/platform/finding"
)

// allow ends the exclusion of keys and returns those that it is ended for.
func allow(t *testing.T, etcd, prefix string) Allowed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{Endpoints: []string{etcd}}
	return must(o.Allow(ctx, prefix))(t)
}

// TestExcludedKeysAreAllowed: a key that was written past the gateways is cached again once an operator allows it, and shows the
// newest value. The next write past the gateways excludes it again. Keys with another prefix stay excluded.
func TestExcludedKeysAreAllowed(t *testing.T) {
	etcd := startEtcd(t)
	a, direct := startCached(t, etcd, startChain(t, 3, 1), Cache{}), open(t, etcd)
	for _, value := range []string{"1", "2"} {
		for _, key := range []string{"mine/k", "other"} {
			if value == "2" && key == "other" {
				continue
			}
			must(a.client.Put(t.Context(), key, value))(t)
			a.hot(t, key)
			must(direct.Put(t.Context(), key, value+" past"))(t)
			awaitKeys(t, direct, engine.OwnPrefix+"excluded/"+key, 1)
		}
		if allowed := allow(t, etcd, "mine/"); !slices.Equal(allowed.Keys, []string{"mine/k"}) || len(allowed.Waiting) > 0 {
			t.Fatalf("%+v", allowed)
		}
		if r := a.hot(t, "mine/k"); string(r.Kvs[0].Value) != value+" past" {
			t.Errorf("after the key was allowed the chain answers %v", r)
		}
		awaitKeys(t, direct, engine.OwnPrefix+"excluded/other", 1)
	}
	if allowed := allow(t, etcd, "unknown"); len(allowed.Keys) > 0 {
		t.Errorf("%+v", allowed)
	}
}

// allowShortly allows a key that stays excluded. It repeats the call with twice the time, beginning with a second, until
// the result is as sure or unsure as wanted.
func allowShortly(t *testing.T, etcd, key string, unsure bool) (allowed Allowed, err error) {
	t.Helper()
	o := Options{Endpoints: []string{etcd}}
	for within := time.Second; within < time.Minute; within *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		allowed, err = o.Allow(ctx, key)
		cancel()
		if err == nil && allowed.Unsure == unsure {
			break
		}
	}
	return allowed, err
}

// TestPlacedKeysAreNotAllowed: a key that the directory names stays excluded.
func TestPlacedKeysAreNotAllowed(t *testing.T) {
	etcd := startEtcd(t)
	direct := open(t, etcd)
	must(direct.Put(t.Context(), engine.OwnPrefix+"excluded/k", ""))(t)
	must(direct.Put(t.Context(), engine.OwnPrefix+"directory/k", "64 gone.1"))(t)
	if allowed, err := allowShortly(t, etcd, "k", false); err != nil || !slices.Equal(allowed.Waiting, []string{"k"}) || len(allowed.Keys) > 0 {
		t.Errorf("%+v, %v", allowed, err)
	}
	awaitKeys(t, direct, engine.OwnPrefix+"excluded/k", 1)
}

// TestKeyIsAllowedWhileAWatchIsLate: a client of etcd writes a placed key past the gateways, and deletes its entry in the
// directory, or all keys of the gateways. etcd's answers to a gateway are held up, so that it still answers reads from the
// chain. An operator's request waits for it.
func TestKeyIsAllowedWhileAWatchIsLate(t *testing.T) {
	for _, deleted := range []string{"directory/k", ""} {
		t.Run("deleted "+deleted, func(t *testing.T) {
			etcd, cluster := startEtcd(t), startChain(t, 3, 1)
			line, direct := startLine(t, etcd), open(t, etcd)
			a := startCached(t, line.listener.Addr().String(), cluster, Cache{Lease: time.Hour})
			must(a.client.Put(t.Context(), "k", "1"))(t)
			a.hot(t, "k")
			release := line.hold()
			defer release()
			must(direct.Delete(t.Context(), engine.OwnPrefix+deleted, clientv3.WithPrefix()))(t)
			must(direct.Put(t.Context(), "k", "2"))(t)
			must(direct.Put(t.Context(), engine.OwnPrefix+"excluded/k", ""))(t) // by the gateway that notices
			if allowed, err := allowShortly(t, etcd, "k", true); err != nil || !slices.Equal(allowed.Waiting, []string{"k"}) || !allowed.Unsure {
				t.Errorf("%+v, %v, and the gateway answers %q", allowed, err, valueOf(a.client.Get(t.Context(), "k")))
			}
			release()
			if allowed := allow(t, etcd, "k"); !slices.Equal(allowed.Keys, []string{"k"}) || allowed.Unsure {
				t.Errorf("%+v", allowed)
			}
			if value := valueOf(a.client.Get(t.Context(), "k")); value != "2" {
				t.Errorf("when the key was allowed the gateway answers %q", value)
			}
		})
	}
}

// TestCleanLeavesNothing: while a gateway runs, nothing is deleted, and the gateway is named. Then nothing of the gateways is left,
// and gateways cache again afterwards.
func TestCleanLeavesNothing(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	direct, o := open(t, etcd), Options{Endpoints: []string{etcd}}
	for _, value := range []string{"1", "2"} {
		a := startCached(t, etcd, cluster, Cache{})
		must(a.client.Put(t.Context(), "k", value))(t)
		if r := a.hot(t, "k"); string(r.Kvs[0].Value) != value {
			t.Errorf("the chain answers %v", r)
		}
		before := ownAt(t, direct, "").Count
		if _, err := o.Clean(t.Context()); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "--listen 127.0.0.1:0") {
			t.Errorf("while a gateway runs: %v", err)
		}
		if after := ownAt(t, direct, "").Count; after < before {
			t.Errorf("%d keys of %d are left while a gateway runs", after, before)
		}
		a.stop()
		deleted := must(o.Clean(t.Context()))(t)
		if left := ownAt(t, direct, ""); deleted == 0 || left.Count > 0 {
			t.Errorf("%d keys deleted, and left are %v", deleted, left.Kvs)
		}
		must(direct.Put(t.Context(), "k", "directly"))(t)
	}
	all := must(direct.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly()))(t)
	if all.Count != 1 {
		t.Errorf("etcd has %v", all.Kvs)
	}
}

// TestVersionsOfGateways: what a gateway says about itself has its version, which is compared with that of this
// program.
func TestVersionsOfGateways(t *testing.T) {
	etcd := startEtcd(t)
	startCached(t, etcd, startChain(t, 3, 1), Cache{})
	o := Options{Endpoints: []string{etcd}}
	eventually(t, "the finding about a gateway of this version", func() bool {
		list := o.examineGateways(t.Context())
		return len(list) == 1 && list[0].State == finding.OK
	})
	for about, want := range map[string]string{
		"host, --listen :1, process 2": "names no version", "host, --listen :1, process 2" + aboutVersion + "v0.0.1": "v0.0.1",
	} {
		f := judgeGateway(about)
		if f.State != finding.Warning || f.About != "host, --listen :1, process 2" || !strings.Contains(f.Text, want) {
			t.Errorf("%q is judged as %+v", about, f)
		}
	}
}

// TestOperatorsEtcdThatDoesNotAnswer: commands for operators say which etcd is away, and how to name another.
func TestOperatorsEtcdThatDoesNotAnswer(t *testing.T) {
	o := Options{Endpoints: []string{"127.0.0.1:1"}}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, allowed := o.Allow(ctx, "k")
	_, cleaned := o.Clean(ctx)
	for _, err := range []error{allowed, cleaned} {
		if err == nil || !strings.HasPrefix(err.Error(), "etcd at 127.0.0.1:1 does not answer: is it running") ||
			!strings.Contains(err.Error(), "--etcd-endpoints") {
			t.Error(err)
		}
	}
}
