package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// Follower receives durable changes in order, from one goroutine. It owns its arguments.
type Follower interface {
	// Loaded brings the whole state: at first, and again whenever changes may have been missed.
	Loaded(Formation, *reconfig.State)
	// Changed brings one change. Shards that it names may be as they were.
	Changed(reconfig.Change)
	// Keyed brings the keys of a cluster with tags.
	Keyed(*wire.Keyring)
	// Led reports the present leader.
	Led(Leader)
}

// Follow keeps a follower informed until ctx ends. While etcd is away it says nothing; [Store.Trouble] does.
func (s *Store) Follow(ctx context.Context, f Follower) error {
	for {
		var m *image
		err := s.retry(ctx, partFollow, func(try context.Context) (err error) {
			if m, err = s.load(try); err == nil && !m.formed {
				err = fmt.Errorf("the settings of cluster %q are gone from etcd", s.cluster)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil: // the keys cannot be read: the last state stays in force
			s.report(partFollow, err)
		default:
			f.Loaded(m.formation, &m.state)
			f.Led(m.leader)
			if m.keyring != nil {
				f.Keyed(m.keyring)
			}
			if err := s.watch(ctx, newGathering(s, m), f); ctx.Err() == nil {
				s.report(partFollow, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseMin):
		}
	}
}

// watch reports all changes after those in next, until one may have been missed.
func (s *Store) watch(ctx context.Context, next *gathering, f Follower) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(next.revision+1))
	for response := range events {
		if err := response.Err(); err != nil {
			return err
		}
		for _, event := range response.Events {
			if err := next.add(event, f); err != nil {
				return err
			}
		}
		if len(response.Events) > 0 { // all events of a revision come in one response
			next.revision = response.Events[len(response.Events)-1].Kv.ModRevision
		}
	}
	return errors.New("the watch was ended")
}

// gathering puts the transactions of one change together.
type gathering struct {
	store     *Store
	formation Formation
	revision  int64 // of the last event
	replicas  int
	times     reconfig.Times
	tags      reconfig.TagStep
	set       reconfig.ControllerSet
	nodes     map[reconfig.NodeID]*reconfig.Node
	pages     map[int][]reconfig.Shard
}

func newGathering(s *Store, m *image) *gathering {
	return &gathering{store: s, formation: m.formation, revision: m.revision}
}

func (g *gathering) add(event *clientv3.Event, f Follower) error {
	kind, rest := g.store.splitKey(event.Kv.Key)
	if kind == "leader" {
		return g.lead(event, f)
	}
	if event.Type != clientv3.EventTypePut {
		return fmt.Errorf("somebody deleted %s", event.Kv.Key)
	}
	if kind == "keys" {
		var r keysRecord
		if err := decode(string(event.Kv.Key), event.Kv.Value, &r); err != nil {
			return err
		}
		f.Keyed(r.keyring())
		return nil
	}
	if kind == "settings" {
		return g.settings(event)
	}
	if g.nodes == nil {
		g.nodes, g.pages = map[reconfig.NodeID]*reconfig.Node{}, map[int][]reconfig.Shard{}
	}
	part := reconfig.State{Nodes: g.nodes}
	if err := g.store.apply(kind, rest, event.Kv.Key, event.Kv.Value, &part, g.pages); err != nil {
		return err
	}
	if kind != "change" {
		return nil
	}
	c := reconfig.Change{
		Number: part.Change, Shards: map[uint16]reconfig.Shard{}, Replicas: g.replicas, Times: g.times, Tags: g.tags, Controllers: g.set,
	}
	for _, node := range g.nodes {
		c.Nodes = append(c.Nodes, *node)
	}
	for page, shards := range g.pages {
		for i, shard := range shards {
			c.Shards[uint16(page*pageShards+i)] = shard
		}
	}
	g.nodes, g.pages, g.replicas, g.times, g.tags = nil, nil, 0, reconfig.Times{}, reconfig.TagStep{}
	g.set = reconfig.ControllerSet{}
	f.Changed(c)
	return nil
}

// settings change in the number of replicas, in the times, in the tags and in the controllers only.
func (g *gathering) settings(event *clientv3.Event) error {
	var r settingsRecord
	if err := decode(string(event.Kv.Key), event.Kv.Value, &r); err != nil {
		return err
	}
	now := r.formation()
	g.replicas = r.Replicas
	g.formation.Settings.Replicas = r.Replicas
	if times := now.Settings.Times(); times != g.formation.Settings.Times() {
		g.times = times
		g.formation.Settings.SetTimes(times)
	}
	if now.Settings.Tags != g.formation.Settings.Tags {
		g.tags = now.Settings.Tags
		g.formation.Settings.Tags = g.tags
	}
	if now.Controllers.Since != g.formation.Controllers.Since {
		g.set = now.Controllers
		g.formation.Controllers = now.Controllers
	}
	if now.Settings != g.formation.Settings {
		return errors.New("the settings changed")
	}
	return nil
}

func (g *gathering) lead(event *clientv3.Event, f Follower) error {
	if event.Type != clientv3.EventTypePut {
		f.Led(Leader{})
		return nil
	}
	var r leaderRecord
	if err := decode(string(event.Kv.Key), event.Kv.Value, &r); err != nil {
		return err
	}
	f.Led(Leader{Term: uint64(event.Kv.ModRevision), Address: r.Address})
	return nil
}

func (s *Store) pageKey(page int) string { return s.key("page/" + strconv.Itoa(page)) }

func (s *Store) nodeKey(id reconfig.NodeID) string { return s.key(fmt.Sprintf("node/%d", id)) }
