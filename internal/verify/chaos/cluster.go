package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// formPatience bounds the wait for the first chains: controllers first elect a leader.
const formPatience = 3 * time.Minute

// Setup describes the cluster of a trial.
type Setup struct {
	Lab      lab.Options // managed, with commands for agents and controllers
	Replicas int         // members of every chain, as configured in the controllers
	Formed   int         // members of the first chains, if fewer; 0: Replicas
	// Leader asks the lab's controllers for the current leader.
	Leader func(ctx context.Context, l *lab.Lab) (Leading, error)
	// Etcd returns the client address of a controller's etcd; nil: it serves no clients.
	Etcd func(controller lab.Host) string
	// Replace makes the place of a controller free that lost its data, Remove and Add change the set of controllers, and
	// Votes reports whether all controllers of the lab vote and count. nil: no controller loses its data.
	Replace, Remove, Add func(ctx context.Context, l *lab.Lab, controller string) error
	Votes                func(ctx context.Context, l *lab.Lab) (bool, error)
	Upgrade              *Upgrade // nil: faults
	// Event, if set, receives a text for each event.
	Event func(text string)
	// Logs is the directory for the logs of agents and controllers after a failure, because the
	// lab's logs are removed with it.
	Logs string
}

// Leading is the leader's state: the last change of the cluster's state that it knows, and its
// copying.
type Leading struct {
	Host   string
	Change uint64
	Copied uint64 // bytes copied since it became leader
	Whole  int    // active shards with all members
}

func (s *Setup) event(format string, arguments ...any) {
	if s.Event != nil {
		s.Event(fmt.Sprintf(format, arguments...))
	}
}

// cluster is a managed lab that is up, with its map.
type cluster struct {
	setup    *Setup
	lab      *lab.Lab
	follower *follow.Follower
}

// trial brings a cluster up, runs a trial on it, and removes it in any case. It keeps the logs of a cluster whose trial
// found a violation.
func trial[R interface{ OK() bool }](ctx context.Context, s *Setup, run func(*cluster) (R, error)) (result R, err error) {
	c, err := up(ctx, s)
	if err != nil {
		return result, err
	}
	defer func() {
		if err == nil && !result.OK() {
			_ = c.keepLogs() // the trial's error is more important
		}
		err = c.down(ctx, err)
	}()
	return run(c)
}

// up brings the lab up and waits until every chain has all its members.
func up(ctx context.Context, s *Setup) (*cluster, error) {
	if !s.Lab.Managed() {
		return nil, errors.New("a trial needs a managed lab: set the number of controllers")
	}
	lab.RunBeforeOthers()
	l, err := lab.Up(ctx, s.Lab)
	if err != nil {
		return nil, err
	}
	c := &cluster{setup: s, lab: l}
	forming, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	if c.follower, err = follow.Open(forming, follow.Options{Addrs: l.Controllers()}); err == nil {
		err = c.await(forming, "the first chains", c.formed)
	}
	if err != nil {
		return nil, c.down(ctx, err)
	}
	return c, nil
}

// down removes the cluster even if ctx has ended. It keeps the logs after an error.
func (c *cluster) down(ctx context.Context, wrong error) error {
	if c.follower != nil {
		c.follower.Close() // removing the lab breaks its connections anyway
	}
	if wrong != nil && ctx.Err() == nil && c.setup.Logs != "" {
		wrong = errors.Join(wrong, c.keepLogs())
	}
	_, err := lab.Down(context.WithoutCancel(ctx), c.lab.Name)
	return errors.Join(wrong, err)
}

// keepLogs copies the logs of all hosts, and of services on them.
func (c *cluster) keepLogs(services ...*lab.Service) error {
	if err := os.MkdirAll(c.setup.Logs, 0o755); err != nil {
		return err
	}
	var names []string
	for _, h := range slices.Concat(c.lab.Plan.With(lab.RoleNode), c.lab.Plan.With(lab.RoleController)) {
		names = append(names, h.Name)
	}
	for _, s := range services {
		names = append(names, s.Name)
	}
	for _, name := range names {
		text, err := os.ReadFile(c.lab.LogFile(name))
		if err != nil {
			continue // never started
		}
		if err := os.WriteFile(filepath.Join(c.setup.Logs, name+".log"), text, 0o644); err != nil {
			return err
		}
	}
	c.setup.event("the logs of agents and controllers are in %s", c.setup.Logs)
	return nil
}

// client makes a client on this machine, which is a host of the lab.
func (c *cluster) client(o client.Options) (*client.Client, error) {
	o.Follow = c.follower
	return client.New(o)
}

// await waits until the map satisfies ok.
func (c *cluster) await(ctx context.Context, what string, ok func(*topology.Map) bool) error {
	if err := c.follower.Await(ctx, ok); err != nil {
		return fmt.Errorf("wait for %s: %w; %s", what, err, c.describe(c.follower.Map()))
	}
	return nil
}

// whole reports whether every chain has all its members and all of them are complete.
func (c *cluster) whole(m *topology.Map) bool {
	return len(m.Chains) > 0 && !slices.ContainsFunc(m.Chains, func(chain topology.MapChain) bool {
		return c.missing(&chain) > 0
	})
}

// epochs returns the epochs of all shards.
func (c *cluster) epochs() []uint32 { return epochs(c.follower) }

// epochs returns the epochs of all shards. Clients tell a follower when its map seems old, and a trial of a keyspace
// has none of them: without this doubt the follower would go on with a source that has lost its power, which says
// nothing.
func epochs(f client.Follower) []uint32 {
	m := f.Map()
	f.Stale(m.Version)
	all := make([]uint32, m.Shards())
	for shard := range all {
		all[shard] = m.Chain(uint16(shard)).Epoch
	}
	return all
}

// wholeLook is the interval of checks whether a cluster is whole.
const wholeLook = 20 * time.Millisecond

// becomesWhole waits until every shard accepts writes and has all its members, and reports whether that came about.
func (c *cluster) becomesWhole(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		leading, err := c.setup.Leader(ctx, c.lab)
		if err == nil && leading.Whole == c.follower.Map().Shards() {
			return true
		}
		if !retry.Sleep(ctx, wholeLook) {
			return false
		}
	}
}

// formed reports whether every chain has its initial number of members.
func (c *cluster) formed(m *topology.Map) bool {
	wanted := c.setup.Replicas
	if c.setup.Formed > 0 {
		wanted = c.setup.Formed
	}
	return len(m.Chains) > 0 && !slices.ContainsFunc(m.Chains, func(chain topology.MapChain) bool {
		return len(m.Complete(&chain)) < wanted
	})
}

// missing returns the number of complete members that a chain lacks.
func (c *cluster) missing(chain *topology.MapChain) int {
	complete := len(chain.Members)
	if chain.Learner >= 0 {
		complete--
	}
	return max(c.setup.Replicas-complete, 0)
}

// describe counts the shards that lack members.
func (c *cluster) describe(m *topology.Map) string {
	short, lost := 0, 0
	for shard := range m.ByShard {
		chain := m.Chain(uint16(shard))
		if c.missing(chain) > 0 {
			short++
		}
		if chain.Lost {
			lost++
		}
	}
	return fmt.Sprintf("of %d shards %d lack members and %d are lost", len(m.ByShard), short, lost)
}

// position returns the node at a place in the chain of a shard.
func position(m *topology.Map, shard uint16, place string) (string, error) {
	members := m.Names(m.Chain(shard))
	if len(members) == 0 {
		return "", fmt.Errorf("shard %d has no chain", shard)
	}
	switch place {
	case Head:
		return members[0], nil
	case Middle:
		return members[len(members)/2], nil
	case Tail:
		return members[len(members)-1], nil
	}
	return "", fmt.Errorf("unknown place in a chain %q: want %s, %s or %s", place, Head, Middle, Tail)
}

// Places in a chain.
const Head, Middle, Tail = "head", "middle", "tail"
