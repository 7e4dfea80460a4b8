package admin

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// Plan lists the moves that a change would cause.
type Plan struct {
	Shards      uint32     `json:"shards"`
	ShardsMoved uint32     `json:"shards_moved"` // whose members become others, or stand in another order
	Copies      int        `json:"copies"`       // of shards, there are now
	CopiesMoved int        `json:"copies_moved"` // that have to be made
	Objects     uint64     `json:"objects"`      // in these, about
	MaxBytes    uint64     `json:"max_bytes"`    // of these, if every value is as long as may be
	Nodes       []NodePlan `json:"nodes"`
	Moves       []Move     `json:"moves"`
}

// NodePlan is a node's part of a plan.
type NodePlan struct {
	Name         string `json:"name"`
	ShardsBefore int    `json:"shards_before"`
	ShardsAfter  int    `json:"shards_after"`
	HeadsBefore  int    `json:"heads_before"`
	HeadsAfter   int    `json:"heads_after"`
}

// Move is a shard's part of a plan.
type Move struct {
	Shard  uint32   `json:"shard"`
	Before []string `json:"before"`
	After  []string `json:"after"`
}

func newPlan(before *Snapshot, in *controllerv1.PlanResponse) *Plan {
	p := &Plan{Shards: in.GetShards(), ShardsMoved: in.GetShardsMoved(), Moves: []Move{}}
	nodes := make(map[string]*NodePlan)
	node := func(name string) *NodePlan {
		if nodes[name] == nil {
			nodes[name] = &NodePlan{Name: name}
		}
		return nodes[name]
	}
	var objects uint64
	for _, n := range before.Nodes {
		*node(n.Name) = NodePlan{n.Name, int(n.Shards), int(n.Shards), int(n.Heads), int(n.Heads)}
		p.Copies += int(n.Shards)
		objects += n.Objects
	}
	for _, m := range in.GetMoves() {
		p.Moves = append(p.Moves, Move{m.GetShard(), append([]string{}, m.GetBefore()...), append([]string{}, m.GetAfter()...)})
		for i, name := range m.GetBefore() {
			node(name).add(i == 0, -1)
		}
		for i, name := range m.GetAfter() {
			node(name).add(i == 0, 1)
			if !slices.Contains(m.GetBefore(), name) {
				p.CopiesMoved++
			}
		}
	}
	if p.Copies > 0 {
		p.Objects = objects * uint64(p.CopiesMoved) / uint64(p.Copies)
	}
	p.MaxBytes = p.Objects * uint64(before.CellBytes)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		p.Nodes = append(p.Nodes, *nodes[name])
	}
	return p
}

func (n *NodePlan) add(head bool, by int) {
	n.ShardsAfter += by
	if head {
		n.HeadsAfter += by
	}
}

// Write shows a plan to people, with at most so many moves.
func (p *Plan) Write(w io.Writer, what string, moves int, colour bool) error {
	if len(p.Moves) == 0 {
		_, err := fmt.Fprintf(w, "%s moves nothing.\n", what)
		return err
	}
	fmt.Fprintf(w, "%s changes %s of %s shards: %s copies to make (%s of %s), about %s objects, at most %s.\n\n", what,
		Grouped(uint64(p.ShardsMoved)), Grouped(uint64(p.Shards)), Grouped(uint64(p.CopiesMoved)), percent(p.CopiesMoved, p.Copies),
		Grouped(uint64(p.Copies)), Grouped(p.Objects), Bytes(p.MaxBytes))
	nodes := newTable("NODE", ">SHARDS", ">THEN", ">", ">HEADS", ">THEN", ">")
	for _, n := range p.Nodes {
		nodes.add(n.Name, Grouped(uint64(n.ShardsBefore)), Grouped(uint64(n.ShardsAfter)), signed(n.ShardsAfter-n.ShardsBefore),
			Grouped(uint64(n.HeadsBefore)), Grouped(uint64(n.HeadsAfter)), signed(n.HeadsAfter-n.HeadsBefore))
	}
	fmt.Fprintf(w, "%s\n", nodes.text(0))
	chains := newTable(">SHARD", "CHAIN", "THEN")
	for _, m := range p.Moves[:min(moves, len(p.Moves))] {
		chains.add(fmt.Sprint(m.Shard), chainText(m.Before, m.After, red, colour), chainText(m.After, m.Before, green, colour))
	}
	if moves > 0 {
		fmt.Fprint(w, chains.text(0))
	}
	if more := len(p.Moves) - moves; more > 0 {
		fmt.Fprintf(w, "and %s more shards; --moves shows them all\n", Grouped(uint64(more)))
	}
	return nil
}

// chainText writes a chain, and paints members that are not in another one.
func chainText(chain, other []string, paint string, colour bool) string {
	names := slices.Clone(chain)
	for i, name := range names {
		if colour && !slices.Contains(other, name) {
			names[i] = paint + name + plain
		}
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, " > ")
}
