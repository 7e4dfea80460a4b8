package keyspace

import (
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/proto"
)

// Append adds the events of an etcd's watch over all keys, as etcd's store has them. Every revision changes a key, so
// each event must be of the revision of the event before, or of the next one. The events of a revision must be appended
// by one call.
func (s *Snapshot) Append(events []*mvccpb.Event) error {
	all := revisions{s.revisions, mvcc.Revision{Main: s.Revision()}}
	for _, e := range events {
		at := mvcc.Revision{Main: e.Kv.ModRevision}
		switch {
		case at.Main == all.last.Main && at.Main > s.Revision():
			at.Sub = all.last.Sub + 1
		case at.Main != all.last.Main+1:
			return fmt.Errorf("%w: %d after %d", errRevision, at.Main, all.last.Main)
		}
		kv, deleted := e.Kv, e.Type == mvccpb.DELETE
		if deleted {
			kv = &mvccpb.KeyValue{Key: kv.Key}
		}
		object, err := proto.Marshal(kv)
		if err != nil {
			return err
		}
		if err := all.add(nameOf(at, deleted), object); err != nil {
			return err
		}
	}
	s.revisions = all.entries
	return nil
}

// SetLeases replaces the leases by those with the given times to live, in seconds.
func (s *Snapshot) SetLeases(ttls map[int64]int64) {
	s.leases = s.leases[:0]
	for _, id := range slices.Sorted(maps.Keys(ttls)) {
		s.leases = append(s.leases, &leasepb.Lease{ID: id, TTL: ttls[id]})
	}
}
