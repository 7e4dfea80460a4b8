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
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// formPatience bounds the wait for the first chains: controllers elect a leader first.
const formPatience = 30 * time.Second

// Setup describes the cluster that a trial is made on.
type Setup struct {
	Lab      lab.Options // managed, with commands for agents and controllers
	Replicas int         // members of every chain, as the controllers were told
	Formed   int         // members of the first chains, if fewer; 0: as many
	// Leader asks the lab's controllers which of them leads.
	Leader func(ctx context.Context, l *lab.Lab) (Leading, error)
	// Etcd is where the etcd of a controller serves others; nil: it does not.
	Etcd func(controller lab.Host) string
	// Event, if set, is told what happens, as it happens.
	Event func(text string)
	// Logs is where the logs of agents and controllers are kept if something was wrong, since they go with the lab.
	Logs string
}

// Leading is the controller that leads, and the last change of the cluster's state that it knows.
type Leading struct {
	Host   string
	Change uint64
	Copied uint64 // bytes, since it leads
	Whole  int    // shards that are active with all the members wanted
}

func (s *Setup) event(format string, arguments ...any) {
	if s.Event != nil {
		s.Event(fmt.Sprintf(format, arguments...))
	}
}

// cluster is a managed lab that is up, and its map.
type cluster struct {
	setup    *Setup
	lab      *lab.Lab
	follower *follow.Follower
}

// up brings the lab up and waits until every chain has all its members.
func up(ctx context.Context, s *Setup) (*cluster, error) {
	if !s.Lab.Managed() {
		return nil, errors.New("a managed lab is wanted: with controllers")
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

// down removes everything, also when ctx has ended. If something was wrong the logs are kept.
func (c *cluster) down(ctx context.Context, wrong error) error {
	if c.follower != nil {
		c.follower.Close() // what follows takes its connections away anyway
	}
	if wrong != nil && ctx.Err() == nil && c.setup.Logs != "" {
		wrong = errors.Join(wrong, c.keepLogs())
	}
	_, err := lab.Down(context.WithoutCancel(ctx), c.lab.Name)
	return errors.Join(wrong, err)
}

// keepLogs copies the logs of all hosts.
func (c *cluster) keepLogs() error {
	if err := os.MkdirAll(c.setup.Logs, 0o755); err != nil {
		return err
	}
	for _, h := range slices.Concat(c.lab.Plan.With(lab.RoleNode), c.lab.Plan.With(lab.RoleController)) {
		text, err := os.ReadFile(c.lab.LogFile(h.Name))
		if err != nil {
			continue // it was never started
		}
		if err := os.WriteFile(filepath.Join(c.setup.Logs, h.Name+".log"), text, 0o644); err != nil {
			return err
		}
	}
	c.setup.event("the logs of agents and controllers are in %s", c.setup.Logs)
	return nil
}

// client makes one of the product's clients, on this machine, which is a host of the lab.
func (c *cluster) client(o client.Options) (*client.Client, error) {
	o.Follow = c.follower
	return client.New(o)
}

// await waits until the map is as wanted.
func (c *cluster) await(ctx context.Context, what string, ok func(*topology.Map) bool) error {
	if err := c.follower.Await(ctx, ok); err != nil {
		return fmt.Errorf("waiting for %s: %w; %s", what, err, c.describe(c.follower.Map()))
	}
	return nil
}

// whole reports whether every chain has all the members it should have, and all of them are complete.
func (c *cluster) whole(m *topology.Map) bool {
	return len(m.Chains) > 0 && !slices.ContainsFunc(m.Chains, func(chain topology.MapChain) bool { return c.missing(&chain) > 0 })
}

// formed reports whether every chain has as many members as it is to begin with.
func (c *cluster) formed(m *topology.Map) bool {
	wanted := c.setup.Replicas
	if c.setup.Formed > 0 {
		wanted = c.setup.Formed
	}
	return len(m.Chains) > 0 && !slices.ContainsFunc(m.Chains, func(chain topology.MapChain) bool { return len(m.Complete(&chain)) < wanted })
}

// missing is how many complete members a chain lacks.
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

// position finds the node that has a place in the chain of a shard.
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
	return "", fmt.Errorf("%q is no place in a chain: %s, %s or %s is wanted", place, Head, Middle, Tail)
}

// Places in a chain.
const Head, Middle, Tail = "head", "middle", "tail"
