package dashboard

import (
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Event is a change of a cluster.
type Event struct {
	Number int    `json:"number"` // of this server, ascending
	AtMS   int64  `json:"at_ms"`  // Unix time
	Kind   string `json:"kind"`   // one of the constants below
	Text   string `json:"text"`
}

// Kinds of events.
const (
	KindFailure = "failure"
	KindRepair  = "repair"
	KindChange  = "change"
)

// Compare returns what changed from one view to the next. Times and numbers are left to the caller.
func Compare(before, after *View) []Event {
	var events []Event
	add := func(kind, format string, args ...any) {
		events = append(events, Event{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if before.Status != nil && after.Status != nil && before.Status != after.Status {
		compareStatus(before, after, add)
	}
	if before.Map != nil && after.Map != nil && before.Map != after.Map && before.Map.Shards() == after.Map.Shards() {
		wanted := 0
		if after.Status != nil {
			wanted = int(after.Status.Replicas)
		}
		compareMaps(before.Map, after.Map, wanted, add)
	}
	return events
}

type adder func(kind, format string, args ...any)

func compareStatus(before, after *View, add adder) {
	if was, is := before.Status.Leader, after.Status.Leader; was != is && is != "" {
		add(KindChange, "controller %s leads", is)
	} else if was != is {
		add(KindFailure, "no controller leads")
	}
	for _, c := range after.Status.Controllers {
		for _, was := range before.Status.Controllers {
			switch {
			case was.Address != c.Address || was.Reachable == c.Reachable:
			case c.Reachable:
				add(KindRepair, "controller %s is back", c.Address)
			default:
				add(KindFailure, "controller %s is away", c.Address)
			}
		}
	}
	for _, n := range after.Status.Nodes {
		was, known := before.Status.Node(n.Name)
		switch {
		case !known:
			add(KindChange, "node %s joined", n.Name)
		case was.Standing == n.Standing:
		case n.Standing == "up":
			add(KindRepair, "node %s is up, it was %s", n.Name, was.Standing)
		case was.Standing == "up" && n.Standing != "draining" && n.Standing != "cordoned":
			add(KindFailure, "node %s is %s", n.Name, n.Standing)
		default:
			add(KindChange, "node %s is %s", n.Name, n.Standing)
		}
	}
	if was, is := before.Status.Shards, after.Status.Shards; is.Down > was.Down {
		add(KindFailure, "%d shards are down", is.Down)
	} else if was.FullyReplicated < was.Total && is.FullyReplicated == is.Total {
		add(KindRepair, "all %d shards are whole", is.Total)
	}
	for _, k := range after.Status.Keyspaces {
		for _, was := range before.Status.Keyspaces {
			if was.Name == k.Name && was.Era != k.Era {
				add(KindRepair, "keyspace %s is in era %d, with the disks of %v", k.Name, k.Era, k.Disks)
			}
		}
	}
}

// compareMaps tells for each node the chains that it left, copies, or serves now. A node that left a chain with fewer
// members than wanted has failed; else it was moved or drained.
func compareMaps(before, after *topology.Map, wanted int, add adder) {
	was, is := placesOf(before), placesOf(after)
	for _, name := range namesIn(was, is) {
		var left, copies, serves []int
		leaves := KindChange
		for shard := range after.Shards() {
			switch b, a := was[name][shard], is[name][shard]; {
			case b == a:
			case a == absent:
				left = append(left, shard)
				if len(after.Chain(uint16(shard)).Members) < wanted {
					leaves = KindFailure
				}
			case a == learning:
				copies = append(copies, shard)
			default:
				serves = append(serves, shard)
			}
		}
		for _, change := range []struct {
			shards     []int
			kind, what string
		}{{left, leaves, "left"}, {copies, KindRepair, "gets a copy of"}, {serves, KindRepair, "serves"}} {
			if len(change.shards) > 0 {
				add(change.kind, "node %s %s %s", name, change.what, shardsText(change.shards))
			}
		}
	}
}

// shownRanges is the longest list of shards in an event.
const shownRanges = 40

func shardsText(shards []int) string {
	list, noun := ranges(shards), "shard"
	if len(shards) > 1 {
		noun = fmt.Sprintf("%d shards:", len(shards))
	}
	if len(list) > shownRanges {
		return fmt.Sprintf("%d shards", len(shards))
	}
	return noun + " " + list
}

// place is a node's part in a chain.
type place uint8

const (
	absent place = iota
	learning
	complete
)

func placesOf(m *topology.Map) map[string][]place {
	places := make(map[string][]place)
	for shard, at := range m.ByShard {
		c := &m.Chains[at]
		for i, name := range m.Names(c) {
			if places[name] == nil {
				places[name] = make([]place, m.Shards())
			}
			if places[name][shard] = complete; i == c.Learner {
				places[name][shard] = learning
			}
		}
	}
	for _, n := range m.Nodes {
		if places[n.Name] == nil {
			places[n.Name] = make([]place, m.Shards())
		}
	}
	return places
}

// namesIn returns the names in both, in order. A node that a map lacks is absent from its chains.
func namesIn(was, is map[string][]place) (names []string) {
	for _, one := range []map[string][]place{was, is} {
		for name, places := range one {
			names = append(names, name)
			for _, other := range []map[string][]place{was, is} {
				if other[name] == nil {
					other[name] = make([]place, len(places))
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// number gives events their times and numbers.
func number(events []Event, now time.Time, last int) []Event {
	for i := range events {
		events[i].AtMS, events[i].Number = now.UnixMilli(), last+i+1
	}
	return events
}
