package store

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// pageShards is how many shards stand in one key. It is part of the format.
const pageShards = 64

// Leader identifies the leading controller.
type Leader struct {
	Term    uint64 // 0: none
	Address string
}

// image is a cluster's data in etcd, at one revision.
type image struct {
	formation Formation
	state     reconfig.State
	leader    Leader
	revision  int64
	formed    bool
	keys      int // of the state: not the leader's
	keyring   *wire.Keyring
}

// load reads everything, as it is now.
func (s *Store) load(ctx context.Context) (*image, error) {
	response, err := s.client.Get(ctx, s.prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	m := &image{revision: response.Header.Revision, state: reconfig.State{Nodes: map[reconfig.NodeID]*reconfig.Node{}}}
	pages := map[int][]reconfig.Shard{}
	for _, kv := range response.Kvs {
		switch kind, rest := s.splitKey(kv.Key); kind {
		case "settings":
			var r settingsRecord
			if err := decode(string(kv.Key), kv.Value, &r); err != nil {
				return nil, err
			}
			m.formation, m.formed = r.formation(), true
		case "leader":
			var r leaderRecord
			if err := decode(string(kv.Key), kv.Value, &r); err != nil {
				return nil, err
			}
			m.leader = Leader{Term: uint64(kv.ModRevision), Address: r.Address}
			continue
		case "keys":
			var r keysRecord
			if err := decode(string(kv.Key), kv.Value, &r); err != nil {
				return nil, err
			}
			m.keyring = r.keyring()
		default:
			if err := s.apply(kind, rest, kv.Key, kv.Value, &m.state, pages); err != nil {
				return nil, err
			}
		}
		m.keys++
	}
	m.state.Settings, m.state.Controllers = m.formation.Settings, m.formation.Controllers
	m.state.Shards = make([]reconfig.Shard, m.state.Settings.Shards)
	for page, shards := range pages {
		if err := place(m.state.Shards, page, shards); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// apply reads a node, a page or the number of a change.
func (s *Store) apply(kind, rest string, key, value []byte, state *reconfig.State, pages map[int][]reconfig.Shard) error {
	switch kind {
	case "change":
		var r changeRecord
		if err := decode(string(key), value, &r); err != nil {
			return err
		}
		state.Change = r.Change
	case "node":
		var r nodeRecord
		if err := decode(string(key), value, &r); err != nil {
			return err
		}
		state.Nodes[r.ID] = r.node()
	case "page":
		var r pageRecord
		if err := decode(string(key), value, &r); err != nil {
			return err
		}
		number, err := strconv.Atoi(rest)
		if err != nil || len(r.Shards) > pageShards {
			return fmt.Errorf("etcd key %s is no page of shards: %w", key, ErrForeign)
		}
		shards := make([]reconfig.Shard, len(r.Shards))
		for i, shard := range r.Shards {
			shards[i] = reconfig.Shard(shard)
		}
		pages[number] = shards
	default:
		return fmt.Errorf("etcd has a key %s: %w", key, ErrForeign)
	}
	return nil
}

// place puts a page where it belongs among all shards.
func place(all []reconfig.Shard, page int, shards []reconfig.Shard) error {
	first := page * pageShards
	if page < 0 || first+len(shards) > len(all) {
		return fmt.Errorf("etcd has shards %d to %d of %d: %w", first, first+len(shards)-1, len(all), ErrForeign)
	}
	copy(all[first:], shards)
	return nil
}

// Form stores the formation of the cluster, unless it was formed before, and returns the stored one. Zero fields of want are
// taken from defaults.
func (s *Store) Form(ctx context.Context, want, defaults Formation) (Formation, error) {
	var formed Formation
	err := s.retry(ctx, partFollow, func(try context.Context) error {
		m, err := s.load(try)
		switch {
		case err != nil:
			return err
		case m.formed:
			formed = m.formation
			return nil
		case m.keys > 0:
			return fmt.Errorf("etcd has keys below %s but no settings of a cluster: choose another name with --cluster: %w", s.prefix, ErrForeign)
		}
		formed = want.or(&defaults)
		key := s.key("settings")
		response, err := s.client.Txn(try).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, encode(recordOfFormation(&formed)))).Commit()
		if err == nil && !response.Succeeded {
			return errFormsNow
		}
		return err
	})
	if err != nil {
		return Formation{}, err
	}
	return formed, want.agrees(&formed, s.cluster)
}
