package watch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/watch"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// TestChanges: what is a change depends on what is known of the key. A tombstone that is collected is none.
func TestChanges(t *testing.T) {
	type step struct {
		version uint64
		err     error
		want    string // "", change, deleted or back
	}
	absent := client.ErrNotFound
	for _, c := range []struct {
		name  string
		key   *watch.Key
		steps []step
	}{
		{"from now on", watch.New("k", watch.Options{}), []step{
			{3, nil, "change"}, {3, nil, ""}, {0, errors.New("no answer"), ""}, {3, nil, ""}, {7, nil, "change"}, {8, absent, "deleted"},
			{8, absent, ""}, {0, absent, ""}, {9, nil, "change"}, {2, nil, "back"},
		}},
		{"absent at first", watch.New("k", watch.Options{}), []step{{0, absent, "deleted"}, {0, absent, ""}, {1, nil, "change"}, {4, absent, "deleted"}, {6, absent, "deleted"}}},
		{"resumed", watch.After("k", 5, watch.Options{}), []step{{5, nil, ""}, {6, nil, "change"}}},
		{"resumed after a change", watch.After("k", 5, watch.Options{}), []step{{8, nil, "change"}}},
		{"resumed, and deleted", watch.After("k", 5, watch.Options{}), []step{{6, absent, "deleted"}, {0, absent, ""}}},
		{"resumed after a deletion", watch.After("k", 5, watch.Options{}), []step{{5, absent, ""}, {0, absent, ""}, {6, nil, "change"}}},
	} {
		for i, s := range c.steps {
			e, changed := c.key.Saw(time.Time{}, client.Result{Version: s.version}, s.err)
			got := ""
			switch {
			case e.Deleted:
				got = "deleted"
			case e.Back:
				got = "back"
			case changed:
				got = "change"
			}
			if got != s.want || changed && e.Version != s.version {
				t.Errorf("%s, step %d: %q %+v, want %q", c.name, i, got, e, s.want)
			}
		}
	}
}

// TestPace: reads are frequent after a change, and become rare.
func TestPace(t *testing.T) {
	o := watch.Options{Least: 10 * time.Millisecond, Most: 100 * time.Millisecond}
	k, now := watch.New("k", o), time.Now()
	var pauses []time.Duration
	for i := range 30 {
		version := uint64(1 + i/29)
		k.Saw(now, client.Result{Version: version}, nil)
		pauses = append(pauses, k.Due().Sub(now))
		now = k.Due()
	}
	if pauses[0] != o.Least || pauses[28] != o.Most || pauses[29] != o.Least || !slices.IsSorted(pauses[:29]) {
		t.Errorf("%v", pauses)
	}
}

// TestRun watches keys of a chain while they are written: the newest value is always reported, and versions rise.
func TestRun(t *testing.T) {
	c, err := client.New(client.Options{Cluster: softchain.Start(t, 3, 4, 100)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := watch.Options{Least: time.Millisecond, Most: 5 * time.Millisecond}
	keys := []*watch.Key{watch.New("a", o), watch.New("b", o)}
	go func() {
		for _, value := range []string{"1", "2", "3", "last"} {
			for _, key := range []string{"a", "b"} {
				if _, err := c.Put(ctx, key, []byte(value)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	versions, last := make(map[string]uint64), make(map[string]string)
	watch.Run(ctx, c, keys, func(e watch.Event) bool {
		if e.Version < versions[e.Key] {
			t.Errorf("%+v after version %d", e, versions[e.Key])
		}
		versions[e.Key], last[e.Key] = e.Version, string(e.Value)
		return last["a"] != "last" || last["b"] != "last"
	}, func(key string, err error) { t.Logf("%s: %v", key, err) })
	if ctx.Err() != nil {
		t.Fatalf("the last values seen are %v", last)
	}
	if _, err := c.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	var event watch.Event
	watch.Run(ctx, c, []*watch.Key{watch.After("a", versions["a"], o)}, func(e watch.Event) bool {
		event = e
		return false
	}, func(string, error) {})
	if !event.Deleted {
		t.Errorf("resumed: %+v", event)
	}
}
