package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// KeyspaceRecord is the record of a keyspace on disks. Its text is JSON.
type KeyspaceRecord struct {
	Version uint64 // grows with each change; 0: there is none
	Text    json.RawMessage
	Err     error // why the text cannot be read
}

// keyspaceRecord is stored beside the cluster's keys, and not below them: controllers of earlier releases refuse keys
// there that they do not know.
type keyspaceRecord struct {
	Version  int             `json:"version"`
	Claim    uint64          `json:"claim,string"` // drawn for each change, so that a controller knows its own
	Keyspace json.RawMessage `json:"keyspace"`
}

func (s *Store) keyspacePrefix() string { return strings.TrimSuffix(s.prefix, "/") + ":keyspace/" }

func (s *Store) keyspaceKey(name string) string { return s.keyspacePrefix() + name }

func keyspaceOf(kv *mvccpb.KeyValue) KeyspaceRecord {
	var r keyspaceRecord
	err := decode(string(kv.Key), kv.Value, &r)
	return KeyspaceRecord{uint64(kv.ModRevision), r.Keyspace, err}
}

// Keyspace returns the record of a keyspace as it is now.
func (s *Store) Keyspace(ctx context.Context, name string) (r KeyspaceRecord, err error) {
	key := s.keyspaceKey(name)
	err = s.retry(ctx, partWrite, func(try context.Context) error {
		response, err := s.client.Get(try, key)
		if err != nil || len(response.Kvs) == 0 {
			r = KeyspaceRecord{}
			return err
		}
		r = keyspaceOf(response.Kvs[0])
		return nil
	})
	return r, cmp.Or(err, r.Err)
}

// SetKeyspace replaces the record of a keyspace if it has a version, and returns the new version.
func (s *Store) SetKeyspace(ctx context.Context, name string, version uint64, text json.RawMessage) (
	now uint64, swapped bool, err error) {
	key, mine := s.keyspaceKey(name), encode(keyspaceRecord{formatVersion, rand.Uint64(), text})
	err = s.retry(ctx, partWrite, func(try context.Context) error {
		response, err := s.client.Txn(try).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(version))).
			Then(clientv3.OpPut(key, mine)).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		if swapped = response.Succeeded; swapped {
			now = uint64(response.Header.Revision)
			return nil
		}
		held := response.Responses[0].GetResponseRange().Kvs
		if len(held) > 0 && string(held[0].Value) == mine { // an earlier attempt came through
			now, swapped = uint64(held[0].ModRevision), true
		}
		return nil
	})
	return now, swapped, err
}

// FollowKeyspaces calls changed with the records of all keyspaces, by name, and again after each change, until ctx
// ends.
func (s *Store) FollowKeyspaces(ctx context.Context, changed func(map[string]KeyspaceRecord)) {
	for ctx.Err() == nil {
		var all map[string]KeyspaceRecord
		var revision int64
		err := s.retry(ctx, partKeyspaces, func(try context.Context) (err error) {
			all, revision, err = s.keyspaces(try)
			return err
		})
		if err == nil {
			changed(all)
			err = s.watchKeyspaces(ctx, revision, all, changed)
		}
		if ctx.Err() == nil {
			s.report(partKeyspaces, err)
		}
		retry.Sleep(ctx, pauseMin)
	}
}

func (s *Store) keyspaces(ctx context.Context) (map[string]KeyspaceRecord, int64, error) {
	response, err := s.client.Get(ctx, s.keyspacePrefix(), clientv3.WithPrefix())
	if err != nil {
		return nil, 0, err
	}
	all := make(map[string]KeyspaceRecord)
	for _, kv := range response.Kvs {
		all[strings.TrimPrefix(string(kv.Key), s.keyspacePrefix())] = keyspaceOf(kv)
	}
	return all, response.Header.Revision, nil
}

// watchKeyspaces reports all changes after a revision, until one may have been missed.
func (s *Store) watchKeyspaces(ctx context.Context, revision int64, all map[string]KeyspaceRecord,
	changed func(map[string]KeyspaceRecord)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := s.client.Watch(ctx, s.keyspacePrefix(), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	for response := range events {
		if err := response.Err(); err != nil {
			return err
		}
		next := maps.Clone(all)
		for _, event := range response.Events {
			name := strings.TrimPrefix(string(event.Kv.Key), s.keyspacePrefix())
			if event.Type != clientv3.EventTypePut {
				delete(next, name)
				continue
			}
			next[name] = keyspaceOf(event.Kv)
		}
		all = next
		changed(all)
	}
	return errors.New("the watch was ended")
}
