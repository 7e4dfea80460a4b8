package operate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

const (
	// staticAnswer is how long the agents of a static chain may take to answer a look.
	staticAnswer = 2 * time.Second
	// staticEvery is the time between two looks.
	staticEvery = 500 * time.Millisecond
)

// staticChain looks at the nodes of a cluster without controllers.
type staticChain struct {
	cluster *topology.Cluster
	dial    grpc.DialOption

	at   time.Time // of the last look
	last []*agent.Report
}

// either looks at the cluster that the flags name: at its agents if it has no controllers, else at its leader.
func (f *leaderFlags) either(static func(*staticChain) error, managed func(*admin.Leader) error) error {
	cluster, err := f.cluster.Read()
	if err != nil {
		return err
	}
	if cluster.Managed() {
		leader, err := f.leader()
		if err != nil {
			return err
		}
		defer leader.Close()
		return managed(leader)
	}
	dial, err := f.cluster.Dial()
	if err != nil {
		return err
	}
	return static(&staticChain{cluster: cluster, dial: dial})
}

// status prints the chain after two looks, which give the loads.
func (s *staticChain) status(c *cobra.Command, json bool) error {
	s.look(c.Context())
	select {
	case <-c.Context().Done():
		return c.Context().Err()
	case <-time.After(staticEvery):
	}
	snapshot := s.look(c.Context())
	if err := printStatus(c.OutOrStdout(), snapshot, json); err != nil {
		return err
	}
	for _, r := range s.last {
		if r.Error == "" {
			return nil
		}
	}
	return fmt.Errorf("no agent answered; at %s: %s", s.last[0].API, s.last[0].Error)
}

// top draws the chain until ctx ends.
func (s *staticChain) top(ctx context.Context, out *os.File) error {
	ctx, _, stop := untilQuit(ctx)
	defer stop()
	fmt.Fprint(out, enterScreen)
	defer fmt.Fprint(out, leaveScreen)
	every := time.NewTicker(staticEvery)
	defer every.Stop()
	for progress := new(admin.Progress); ; {
		redraw(out, screenOf(out).Draw(time.Now(), s.look(ctx), progress))
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// look asks all agents.
func (s *staticChain) look(ctx context.Context) *admin.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, staticAnswer)
	defer cancel()
	now, reports := time.Now(), agent.Inspect(ctx, agent.Targets(s.cluster.Nodes), nil, s.dial)
	snapshot := staticSnapshot(s.cluster, reports, s.last, now.Sub(s.at))
	s.at, s.last = now, reports
	return snapshot
}

// staticSnapshot returns what the agents of a static chain report. before is what they reported some time ago; nil: nothing.
func staticSnapshot(c *topology.Cluster, reports, before []*agent.Report, ago time.Duration) *admin.Snapshot {
	s := &admin.Snapshot{
		Static: true, Cluster: c.Name, Epoch: c.Epoch,
		Notes: []string{}, Controllers: []admin.Controller{}, Hot: []admin.HotShard{},
	}
	for _, members := range c.Chains {
		s.Replicas = max(s.Replicas, uint32(len(members)))
	}
	serving := make([]int, c.Shards)
	for i, r := range reports {
		node := staticNode(r, serving)
		if before != nil && r.Error == "" && before[i].Error == "" {
			node.Reads = rate(reads(r), reads(before[i]), ago)
			node.Writes = rate(writes(r), writes(before[i]), ago)
		}
		s.Nodes = append(s.Nodes, node)
	}
	s.Shards.Total = uint32(c.Shards)
	for shard, n := range serving {
		switch n {
		case len(c.Chain(uint16(shard))):
			s.Shards.FullyReplicated++
		case 0:
			s.Shards.Down++
		default:
			s.Shards.UnderReplicated++
		}
	}
	if s.Shards.UnderReplicated > 0 {
		s.Notes = append(s.Notes, "writes of shards that are short wait for all their nodes: a static chain is not repaired")
	}
	return s
}

// staticNode returns what one agent reports, and counts it at the shards that it serves.
func staticNode(r *agent.Report, serving []int) admin.Node {
	node := admin.Node{Name: r.Name, Addr: r.Addr, API: r.API, Standing: "up", Labels: map[string]string{}, Objects: r.Objects,
		MaxObjects: r.MaxObjects, Version: r.Version, Trouble: cmp.Or(r.Error, r.PortTrouble)}
	switch {
	case r.Error != "":
		node.Standing = "no answer"
	case len(r.WaitingFor) > 0:
		node.Standing, node.Trouble = "waiting", "it waits for "+strings.Join(r.WaitingFor, ", ")
	}
	for _, in := range r.Chains {
		if in.State != chain.Active.String() {
			continue
		}
		node.Shards += uint32(len(in.Shards))
		if in.Members[0] == r.Addr {
			node.Heads += uint32(len(in.Shards))
		}
		for _, shard := range in.Shards {
			serving[shard]++
		}
	}
	return node
}

// rate returns how often something happened in a second, of two counts. A node that began anew counts from 0.
func rate(now, before uint64, ago time.Duration) uint64 {
	if now < before || ago <= 0 {
		return 0
	}
	return uint64(float64(now-before) / ago.Seconds())
}

// reads counts the reads that a node answered.
func reads(r *agent.Report) uint64 {
	return counted(r, wire.OutcomeAnsweredClean, wire.OutcomeAnsweredTail, wire.OutcomeAnsweredRelaxed, wire.OutcomeAnsweredAbsent)
}

// writes counts the writes that a node ordered or took.
func writes(r *agent.Report) uint64 {
	return counted(r, wire.OutcomeOrdered, wire.OutcomeApplied, wire.OutcomeCommitted)
}

func counted(r *agent.Report, outcomes ...wire.Outcome) (n uint64) {
	for _, c := range r.Counters {
		for _, o := range outcomes {
			if c.Outcome == o.String() {
				n += c.Messages
			}
		}
	}
	return n
}
