package keyspace

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A snapshot takes only events that follow it without a gap, and refuses those that it has.
func TestAppend(t *testing.T) {
	at := func(kind mvccpb.Event_EventType, key string, revision int64) *mvccpb.Event {
		return &mvccpb.Event{Type: kind, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}}
	}
	begun := &Snapshot{compacted: 7}
	together := []*mvccpb.Event{at(mvccpb.PUT, "a", 8), at(mvccpb.DELETE, "b", 8), at(mvccpb.PUT, "a", 9)}
	if err := begun.Append(together); err != nil || begun.Revision() != 9 {
		t.Fatalf("revision %d: %v, want 9", begun.Revision(), err)
	}
	var names []string
	for _, e := range begun.revisions {
		names = append(names, string(e.at.name()))
	}
	if want := "\x00\x00\x00\x00\x00\x00\x00\x08_\x00\x00\x00\x00\x00\x00\x00\x01t"; len(names) != 3 || names[1] != want {
		t.Errorf("the revisions are named %q; want the second one to be %q", names, want)
	}
	for name, events := range map[string][]*mvccpb.Event{
		"a gap":              {at(mvccpb.PUT, "a", 11)},
		"a gap within":       {at(mvccpb.PUT, "a", 10), at(mvccpb.PUT, "a", 12)},
		"an appended one":    {at(mvccpb.PUT, "c", 9)},
		"an older one":       {at(mvccpb.PUT, "a", 8)},
		"one without a key":  {at(mvccpb.PUT, "", 10)},
		"one that goes back": {at(mvccpb.PUT, "a", 10), at(mvccpb.PUT, "b", 9)},
	} {
		if err := begun.Append(events); !errors.Is(err, errRevision) && !errors.Is(err, errKey) {
			t.Errorf("%s: %v", name, err)
		}
		if begun.Revision() != 9 {
			t.Fatalf("after %s: revision %d, want 9", name, begun.Revision())
		}
	}
}
