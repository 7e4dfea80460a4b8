// Package doctor finds what a cluster lacks. Each rule is decided elsewhere: by the leading controller, by agents, and by what
// nodes do when they start. This package asks, and says what to do.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/build"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/finding"
)

// Leader asks the leading controller.
func Leader(ctx context.Context, controllers []string, dial grpc.DialOption) []finding.Finding {
	leader := admin.NewLeader(controllers, dial)
	defer leader.Close()
	snap, err := leader.Snapshot(ctx)
	if err != nil {
		return []finding.Finding{{Check: "controllers", State: finding.Broken, Text: callerror.Text(err),
			Remedy: "start a majority of the controllers, and open their TCP ports"}}
	}
	return OfSnapshot(snap)
}

// OfSnapshot says what is wrong in a leader's status: short chains, placement by zone, nodes and controllers.
func OfSnapshot(s *admin.Snapshot) []finding.Finding {
	shards := finding.Finding{Check: "shards", State: finding.OK, Text: fmt.Sprintf("%d of %d are whole", s.Shards.FullyReplicated, s.Shards.Total)}
	switch c := s.Shards; {
	case c.Down > 0:
		shards.State, shards.Text = finding.Broken, fmt.Sprintf("%d of %d are down", c.Down, c.Total)
		shards.Remedy = "start the nodes that have their copies; netcraq status names them"
	case c.UnderReplicated > 0:
		shards.State, shards.Text = finding.Warning, fmt.Sprintf("%d of %d have fewer than %d members", c.UnderReplicated, c.Total, s.Replicas)
		shards.Remedy = "wait for the copies, or add nodes"
	case c.FullyReplicated < c.Total:
		shards.State = finding.Warning
		shards.Remedy = "wait: netcraq top shows the change"
	}
	list := []finding.Finding{shards}
	for _, note := range s.Notes {
		list = append(list, finding.Finding{Check: "cluster", State: finding.Warning, Text: note})
	}
	for _, n := range s.Nodes {
		f := finding.Finding{Check: "node", About: n.Name, State: finding.OK, Text: n.Standing}
		if n.Trouble != "" {
			f.State, f.Text = finding.Warning, n.Trouble
		} else if n.Standing == "suspected" {
			f.State, f.Remedy = finding.Warning, "start it again, or netcraq fail-node "+n.Name
		}
		list = append(list, f)
	}
	for _, c := range s.Controllers {
		f := finding.Finding{Check: "controller", About: c.Address, State: finding.OK, Text: "it answers"}
		if !c.Leads && !c.Reachable {
			f.State, f.Text, f.Remedy = finding.Warning, "the leader does not reach it", "start it, or open its TCP ports"
		} else if other := build.Other(c.Version); other != "" {
			f.State, f.Text, f.Remedy = finding.Warning, other, build.Order
		}
		list = append(list, f)
	}
	if !s.Tags {
		list = append(list, finding.Finding{Check: "tags", State: finding.Warning, Text: "any host that reaches the nodes can read and write",
			Remedy: "netcraq settings --tags, with certificates"})
	}
	return list
}

// Agents asks the nodes' agents, on their TCP ports, and has those that answer ask each other's data planes.
func Agents(ctx context.Context, nodes []topology.Node, dial grpc.DialOption) []finding.Finding {
	targets := agent.Targets(nodes)
	reports := agent.Inspect(ctx, targets, nil, dial)
	names := make(map[string]string)
	var answering []agent.Target
	for i, r := range reports {
		names[targets[i].Addr] = targets[i].Name
		if r.Error == "" {
			answering = append(answering, targets[i])
		}
	}
	return append(OfReports(reports), OfWays(agent.Reach(ctx, answering, dial), names)...)
}

// OfWays says which ways between nodes are closed: they may be while those from here are open. names are those of data
// planes.
func OfWays(ways []agent.Ways, names map[string]string) (list []finding.Finding) {
	for _, w := range ways {
		f := finding.Finding{Check: "way between nodes", About: w.Name, State: finding.OK}
		var answer, silent []string
		for _, other := range w.Others {
			name := cmp.Or(names[other.Addr], other.Addr)
			if other.Answers {
				answer = append(answer, name)
			} else {
				silent = append(silent, fmt.Sprintf("%s (UDP %s)", name, other.Addr))
			}
		}
		switch {
		case w.Error != "":
			f.State, f.Text = finding.Unknown, w.Error
		case len(silent) > 0:
			f.State, f.Text = finding.Broken, "no answer from "+strings.Join(silent, ", ")
			f.Remedy = "start them, or open their port to this node, both ways"
		case len(answer) > 0:
			f.Text = "answers from " + strings.Join(answer, ", ")
		default: // it is in no chain, or alone
			continue
		}
		list = append(list, f)
	}
	return list
}

// OfReports says what is wrong in agents' reports.
func OfReports(reports []*agent.Report) (list []finding.Finding) {
	for _, r := range reports {
		f := finding.Finding{Check: "agent", About: r.Name, State: finding.OK, Text: "plane " + r.Plane}
		why := r.Unready()
		switch {
		case r.Error != "":
			f.State, f.Text = finding.Broken, fmt.Sprintf("no answer at %s: %s", r.API, r.Error)
			f.Remedy = "start netcraq node there, and open its TCP port"
		case why != "":
			f.State, f.Text, f.Remedy = finding.Warning, why, "netcraq inspect "+r.Name
		case r.Plane == "xdp" && r.Mode != "native":
			f.State, f.Text, f.Remedy = finding.Warning, "XDP in mode "+r.Mode+": "+r.Why, "native mode is faster: run netcraq doctor there"
		case r.Mode != "":
			f.Text += ", " + r.Mode
		}
		list = append(list, f)
		if other := build.Other(r.Version); other != "" && r.Error == "" {
			list = append(list, finding.Finding{
				Check: "version", About: r.Name, State: finding.Warning, Text: other, Remedy: build.Order,
			})
		}
		list = append(list, unreached(r)...)
	}
	return list
}

// unreached says which controllers a node does not reach: its way there may be closed while this host's is open.
func unreached(r *agent.Report) (list []finding.Finding) {
	if r.Membership == nil {
		return nil
	}
	for _, c := range r.Membership.Controllers {
		if c.Trouble != "" {
			list = append(list, finding.Finding{Check: "way to controllers", About: r.Name, State: finding.Warning,
				Text: c.Address + ": " + c.Trouble, Remedy: "start that controller, or open its TCP port to this node"})
		}
	}
	return list
}

// maxTries bounds the search for a key of a node.
const maxTries = 1 << 16

// DataPlanes reads from every node, on its UDP port, and compares the time that an answer takes.
func DataPlanes(ctx context.Context, c *client.Client, within time.Duration) (list []finding.Finding) {
	m := c.Map()
	for i := range m.Nodes {
		list = append(list, dataPlane(ctx, c, &m.Nodes[i], within))
	}
	return list
}

func dataPlane(ctx context.Context, c *client.Client, node *topology.Node, within time.Duration) finding.Finding {
	f := finding.Finding{Check: "data plane", About: node.Name, State: finding.OK}
	key, found := keyOf(c, node.Name)
	if !found {
		f.State, f.Text = finding.Unknown, "it is in no chain"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	begin := time.Now()
	if _, err := c.Get(ctx, key, client.From(client.Named(node.Name)), client.Any()); err != nil && !errors.Is(err, client.ErrNotFound) {
		f.State, f.Text = finding.Broken, fmt.Sprintf("no answer from UDP %v: %v", node.Addr, err)
		f.Remedy = "open the port for clients and nodes, both ways"
		return f
	}
	f.Text = fmt.Sprintf("it answers at UDP %v in %v", node.Addr, time.Since(begin).Round(time.Microsecond))
	return f
}

// keyOf finds a key, which need not exist, that a node has.
func keyOf(c *client.Client, node string) (string, bool) {
	for i := range maxTries {
		key := fmt.Sprint("netcraq/doctor/", i)
		at, err := c.Locate(key)
		if err != nil {
			return "", false
		}
		for _, name := range at.Chain {
			if name == node {
				return key, true
			}
		}
	}
	return "", false
}
