package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// A plan is made beside everything else: the first snapshots after a change may not know of it yet. So several in a row must have nothing
// left to do; and more of them if chains are short of members, which may be for want of nodes.
const (
	settledAfter         = 4
	underReplicatedAfter = 20
)

// wait watches the status until done returns true, and shows the texts that it returns meanwhile.
func (l *Leader) wait(ctx context.Context, show func(string), done func(*Snapshot) (string, bool, error)) error {
	var failed error
	err := l.Watch(ctx, true, func(s *Snapshot) bool {
		line, ok, err := done(s)
		if failed = err; ok || err != nil {
			return false
		}
		show(line)
		return true
	}, func(err error) { show("looking for the controller that leads: " + err.Error()) })
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return errors.Join(failed, err)
}

// WaitDrained waits until a node is in no chain.
func (l *Leader) WaitDrained(ctx context.Context, name string, show func(string)) error {
	progress := new(Progress)
	return l.wait(ctx, show, func(s *Snapshot) (string, bool, error) {
		n, ok := s.Node(name)
		if !ok || n.Standing == "up" {
			return "", false, fmt.Errorf("node %s is not being drained any more", name)
		}
		progress.see(time.Now(), n.Shards, s.CopiedBytes)
		return progress.line(time.Now(), n.Shards), n.Shards == 0, nil
	})
}

// WaitSettled waits until no chain is changing, and none is to change.
func (l *Leader) WaitSettled(ctx context.Context, show func(string)) error {
	progress, idle := new(Progress), 0
	return l.wait(ctx, show, func(s *Snapshot) (string, bool, error) {
		progress.See(time.Now(), s)
		if idle++; s.Shards.remaining() > 0 || s.Shards.Changing > 0 {
			idle = 0
		}
		under := s.Shards.UnderReplicated + s.Shards.Down
		if under > 0 && idle >= underReplicatedAfter {
			return "", false, fmt.Errorf("%s chains stay short of members: see `netcraq status`", Grouped(uint64(under)))
		}
		return progress.Line(time.Now(), s), under == 0 && idle >= settledAfter, nil
	})
}

// WaitMoved waits until a shard has moved.
func (l *Leader) WaitMoved(ctx context.Context, move *controllerv1.Move, show func(string)) error {
	return l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.Map(ctx, &controllerv1.MapRequest{})
		for err == nil {
			var m *controllerv1.MapResponse
			if m, err = stream.Recv(); err == nil {
				members, learner := chainOf(m, uint16(move.GetShard()))
				if slices.Contains(members, move.GetTo()) && !slices.Contains(members, move.GetFrom()) && learner == "" {
					return nil
				}
				line := "waiting for its turn"
				if learner != "" {
					line = learner + " copies"
				} else if slices.Contains(members, move.GetTo()) {
					line = move.GetFrom() + " leaves"
				}
				show(fmt.Sprintf("shard %d: %s", move.GetShard(), line))
			}
		}
		return err
	})
}

// chainOf finds a shard's members and its learner in a map.
func chainOf(m *controllerv1.MapResponse, shard uint16) (members []string, learner string) {
	names := make(map[uint32]string)
	for _, n := range m.GetNodes() {
		names[n.GetId()] = n.GetName()
	}
	for _, c := range m.GetChains() {
		for packed := c.GetShards(); len(packed) > 1; packed = packed[2:] {
			if binary.BigEndian.Uint16(packed) != shard {
				continue
			}
			for _, id := range c.GetMembers() {
				members = append(members, names[id])
			}
			return members, names[c.GetLearner()]
		}
	}
	return nil, ""
}
