// Package dashboard serves a page that shows a cluster while it changes. [Build] makes the document that the page draws
// from what controllers, nodes and gateways report; [Server] sends it to browsers.
package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// Schema is the version of [Document]. Fields may be added to one version; a removed or changed field raises it.
const Schema = 1

// View is what is known of a cluster at a moment. Views are immutable.
type View struct {
	Status   *admin.Snapshot // nil: the chains are static, or no controller answered yet
	Progress *admin.Work     // of the status; nil: no repairs or moves
	Map      *topology.Map   // nil: not known yet
	Reports  []*agent.Report // of the nodes' agents
	Messages map[string]uint64
	Gateways []string
	Keys     []placement.Explanation // that gateways' clients use most
	Failed   []pages.Failure         // gateways without an answer
	Troubles map[string]string       // why something is not known, by what
}

// Document is what the page draws.
type Document struct {
	Schema     int                     `json:"schema"`
	AtMS       int64                   `json:"at_ms"` // Unix time
	Cluster    string                  `json:"cluster"`
	Status     *admin.Snapshot         `json:"status"`   // as netcraq status --json; null: no controller told it
	Progress   *admin.Work             `json:"progress"` // null: no repairs or moves
	Nodes      []Node                  `json:"nodes"`
	Chains     []Chain                 `json:"chains"` // the most urgent first
	MoreChains int                     `json:"more_chains"`
	Gateways   []Gateway               `json:"gateways"`
	Keys       []placement.Explanation `json:"keys"` // as netcraq top --keys --json
	Events     []Event                 `json:"events"`
	Troubles   []string                `json:"troubles"`
}

// Node is a node of a [Document].
type Node struct {
	admin.Node
	Messages    uint64   `json:"messages_per_s"` // received by the data plane
	Load        float64  `json:"load"`           // its messages, as a part of the busiest node's
	LeaseLeftMS *float64 `json:"lease_left_ms"`  // null: not known, or the node needs none
	Plane       string   `json:"plane"`
	Mode        string   `json:"mode"`
}

// Chain is one chain, with all shards that have the same members.
type Chain struct {
	Shards  string           `json:"shards"` // such as 0-7, 12
	Count   int              `json:"count"`
	Epoch   uint32           `json:"epoch"` // the highest
	State   string           `json:"state"` // one of the constants below
	Members []Member         `json:"members"`
	Missing int              `json:"missing"` // members wanted and absent
	Reads   uint64           `json:"reads_per_s"`
	Writes  uint64           `json:"writes_per_s"` // of its hot shards
	Hot     []admin.HotShard `json:"hot_shards"`
}

// States of a chain.
const (
	StateWhole   = "whole"
	StateCopying = "copying" // a member gets its copy
	StateShort   = "short"   // fewer members than wanted
	StateAway    = "away"    // no node serves it now
	StateLost    = "lost"    // every copy is gone
)

// urgencies orders states, the most urgent first.
var urgencies = []string{StateLost, StateAway, StateShort, StateCopying, StateWhole}

// Member is a node in a chain.
type Member struct {
	Name   string      `json:"name"`
	Role   string      `json:"role"`
	Copies *agent.Copy `json:"copies"` // null: it is complete, or how far its copies have come is not known
	New    bool        `json:"new"`    // it is not complete yet and answers no reads
}

// Gateway is a gateway that was asked for its keys.
type Gateway struct {
	Address string `json:"address"`
	Trouble string `json:"trouble"` // empty: it answers
}

// Limits of a document: a page draws no more.
const (
	maxChains = 48
	maxKeys   = 50
)

// Build returns the document of a view at a time. It changes nothing of the view.
func Build(now time.Time, v *View, events []Event) *Document {
	d := &Document{Schema: Schema, AtMS: now.UnixMilli(), Status: v.Status, Progress: v.Progress,
		Nodes: v.nodes(), Keys: append([]placement.Explanation{}, v.Keys[:min(maxKeys, len(v.Keys))]...),
		Gateways: v.gateways(), Events: append([]Event{}, events...), Troubles: []string{}}
	switch {
	case v.Status != nil:
		d.Cluster = v.Status.Cluster
	case v.Map != nil:
		d.Cluster = v.Map.Cluster
	}
	chains := v.chains()
	d.Chains = chains[:min(maxChains, len(chains))]
	d.MoreChains = len(chains) - len(d.Chains)
	for what, why := range v.Troubles {
		d.Troubles = append(d.Troubles, what+": "+why)
	}
	slices.Sort(d.Troubles)
	return d
}

// nodes returns the nodes of the status, or of the map if there is no status.
func (v *View) nodes() []Node {
	nodes := []Node{}
	if v.Status != nil {
		for _, n := range v.Status.Nodes {
			nodes = append(nodes, Node{Node: n})
		}
	} else if v.Map != nil {
		for _, n := range v.Map.Nodes {
			nodes = append(nodes, Node{Node: v.static(n)})
		}
	}
	busiest := uint64(1)
	for i := range nodes {
		n := &nodes[i]
		n.Messages = v.Messages[n.Name]
		busiest = max(busiest, n.Messages)
		if r := v.report(n.Name); r != nil && r.Error == "" {
			n.Plane, n.Mode = r.Plane, r.Mode
			if r.Membership != nil {
				n.LeaseLeftMS = &r.Membership.LeaseLeftMS
			}
		}
	}
	for i := range nodes {
		nodes[i].Load = float64(nodes[i].Messages) / float64(busiest)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// static describes a node that no controller knows, from the map and what its agent reports.
func (v *View) static(n topology.Node) admin.Node {
	out := admin.Node{Name: n.Name, Addr: n.Addr.String(), API: n.APIAddr(), Standing: "up"}
	for _, at := range v.Map.ByShard {
		names := v.Map.Names(&v.Map.Chains[at])
		if role := topology.RoleIn(names, n.Name); role != "" {
			out.Shards++
			if names[0] == n.Name {
				out.Heads++
			}
		}
	}
	if r := v.report(n.Name); r != nil {
		out.Objects, out.MaxObjects, out.Trouble = r.Objects, r.MaxObjects, cmp.Or(r.Error, r.PortTrouble)
		if r.Error != "" {
			out.Standing = "away"
		}
	}
	return out
}

func (v *View) report(name string) *agent.Report {
	if i := slices.IndexFunc(v.Reports, func(r *agent.Report) bool { return r.Name == name }); i >= 0 {
		return v.Reports[i]
	}
	return nil
}

// chains joins shards with the same members to one chain.
func (v *View) chains() []Chain {
	if v.Map == nil {
		return []Chain{}
	}
	type group struct {
		chain  *topology.MapChain
		epoch  uint32
		shards []int
	}
	groups := make(map[string]*group)
	for shard, at := range v.Map.ByShard {
		c := &v.Map.Chains[at]
		key := fmt.Sprint(c.Members, c.Learner, c.Lost)
		if groups[key] == nil {
			groups[key] = &group{chain: c}
		}
		g := groups[key]
		g.epoch, g.shards = max(g.epoch, c.Epoch), append(g.shards, shard)
	}
	chains := []Chain{}
	first := make(map[string]int) // shard of a chain
	for _, g := range groups {
		c := v.chain(g.chain, g.shards)
		c.Epoch = g.epoch
		first[c.Shards] = g.shards[0]
		chains = append(chains, c)
	}
	slices.SortFunc(chains, func(a, b Chain) int {
		return cmp.Or(cmp.Compare(slices.Index(urgencies, a.State), slices.Index(urgencies, b.State)),
			cmp.Compare(first[a.Shards], first[b.Shards]))
	})
	return chains
}

func (v *View) chain(c *topology.MapChain, shards []int) Chain {
	out := Chain{Shards: ranges(shards), Count: len(shards), Members: []Member{}, Hot: []admin.HotShard{}}
	names := v.Map.Names(c)
	for i, name := range names {
		m := Member{Name: name, Role: topology.RoleIn(names, name), New: i == c.Learner}
		if m.New {
			m.Copies = v.copies(name, shards)
		}
		out.Members = append(out.Members, m)
	}
	if v.Status != nil {
		out.Missing = max(0, int(v.Status.Replicas)-len(names))
		for _, h := range v.Status.Hot {
			if _, ours := slices.BinarySearch(shards, int(h.Shard)); ours && h.Reads+h.Writes > 0 {
				out.Hot, out.Reads, out.Writes = append(out.Hot, h), out.Reads+h.Reads, out.Writes+h.Writes
			}
		}
	}
	switch {
	case c.Lost:
		out.State = StateLost
	case len(names) == 0:
		out.State = StateAway
	case out.Missing > 0:
		out.State = StateShort
	case c.Learner >= 0:
		out.State = StateCopying
	default:
		out.State = StateWhole
	}
	return out
}

// copies sums the copies of shards to a node; nil: its agent reports none.
func (v *View) copies(name string, shards []int) *agent.Copy {
	r := v.report(name)
	if r == nil || r.Membership == nil {
		return nil
	}
	var sum *agent.Copy
	for _, c := range r.Membership.Copies {
		if _, ours := slices.BinarySearch(shards, int(c.Shard)); ours {
			if sum == nil {
				sum = &agent.Copy{Shard: c.Shard, Epoch: c.Epoch, Complete: true}
			}
			sum.Objects, sum.Bytes, sum.Complete = sum.Objects+c.Objects, sum.Bytes+c.Bytes, sum.Complete && c.Complete
		}
	}
	return sum
}

func (v *View) gateways() []Gateway {
	gateways := []Gateway{}
	for _, address := range v.Gateways {
		g := Gateway{Address: address}
		for _, f := range v.Failed {
			if f.Gateway == address {
				g.Trouble = f.Reason
			}
		}
		gateways = append(gateways, g)
	}
	return gateways
}

// ranges writes ascending numbers as ranges.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := fmt.Sprint(numbers[i])
		if end > i {
			part += fmt.Sprintf("-%d", numbers[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, ", ")
}

// rates returns how many messages a second each node received between two reports. A node that restarted counts anew.
func rates(before, after []*agent.Report, passed time.Duration) map[string]uint64 {
	counted := make(map[string]uint64)
	for _, r := range before {
		counted[r.Name] = messages(r)
	}
	rates := make(map[string]uint64)
	for _, r := range after {
		if was, ok := counted[r.Name]; ok && r.Error == "" && messages(r) >= was && passed > 0 {
			rates[r.Name] = uint64(float64(messages(r)-was) / passed.Seconds())
		}
	}
	return rates
}

func messages(r *agent.Report) (sum uint64) {
	for _, c := range r.Counters {
		sum += c.Messages
	}
	return sum
}
