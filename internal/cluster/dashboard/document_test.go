package dashboard

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// mapOf returns a map of nodes n0 to n3. Each chain serves one shard; a negative member is the learner, -1 being n1.
func mapOf(chains ...[]int) *topology.Map {
	m := &topology.Map{Version: 1, Cluster: "test", ByShard: make([]uint32, len(chains))}
	for i := range 4 {
		m.Nodes = append(m.Nodes, topology.Node{Name: fmt.Sprint("n", i),
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), 4411)})
	}
	for shard, members := range chains {
		c := topology.MapChain{Epoch: uint32(shard + 1), Learner: -1, Members: slices.Clone(members)}
		for at, member := range members {
			if member < 0 {
				c.Learner, c.Members[at] = at, -member
			}
		}
		m.Chains, m.ByShard[shard] = append(m.Chains, c), uint32(shard)
	}
	return m
}

func statusOf(standing ...string) *admin.Snapshot {
	s := &admin.Snapshot{Cluster: "test", Leader: "c1:4413", Replicas: 3}
	for i, text := range standing {
		s.Nodes = append(s.Nodes, admin.Node{Name: fmt.Sprint("n", i), Standing: text, Reads: 100})
	}
	return s
}

func TestChains(t *testing.T) {
	v := &View{Status: statusOf("up", "up", "up", "suspected"), Map: mapOf([]int{0, 1, 2}, []int{0, 1, 2}, []int{0, 2},
		[]int{0, -1, 2}, []int{}, []int{0, 1, 2})}
	v.Status.Hot = []admin.HotShard{{Shard: 1, Reads: 70, Writes: 3}, {Shard: 5, Reads: 30}, {Shard: 2, Reads: 8}}
	v.Map.Chains[4].Lost = true
	v.Reports = []*agent.Report{{Name: "n1", Membership: &agent.Membership{LeaseLeftMS: 250,
		Copies: []agent.Copy{{Shard: 3, Objects: 40, Bytes: 900}, {Shard: 9, Objects: 1}}}}}
	d := Build(time.UnixMilli(5), v, nil)
	var got []string
	for _, c := range d.Chains {
		text := fmt.Sprintf("%s/%d epoch %d %s missing %d reads %d:", c.Shards, c.Count, c.Epoch, c.State, c.Missing, c.Reads)
		for _, m := range c.Members {
			text += fmt.Sprintf(" %s %s", m.Name, m.Role)
			if m.New {
				text += fmt.Sprintf(" new %+v", *m.Copies)
			}
		}
		got = append(got, text)
	}
	want := []string{
		"4/1 epoch 5 lost missing 3 reads 0:",
		"2/1 epoch 3 short missing 1 reads 8: n0 head n2 tail",
		"3/1 epoch 4 copying missing 0 reads 0: n0 head n1 replica new {Shard:3 Epoch:0 Objects:40 Bytes:900 Complete:false} n2 tail",
		"0-1, 5/3 epoch 6 whole missing 0 reads 100: n0 head n1 replica n2 tail",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := d.Nodes[1]; n.LeaseLeftMS == nil || *n.LeaseLeftMS != 250 || d.Nodes[0].LeaseLeftMS != nil || d.AtMS != 5 {
		t.Errorf("%+v", d.Nodes)
	}
}

// TestManyChains: a document has the most urgent chains, and counts the others.
func TestManyChains(t *testing.T) {
	var chains [][]int // 24 of three nodes, 18 of them with a learner too, and 12 of two
	for a := range 4 {
		for b := range 4 {
			if b == a {
				continue
			}
			chains = append(chains, []int{a, b}, []int{a, b})
			for c := range 4 {
				if c == a || c == b {
					continue
				}
				if chains = append(chains, []int{a, b, c}); b > 0 {
					chains = append(chains, []int{a, -b, c})
				}
			}
		}
	}
	d := Build(time.Time{}, &View{Status: statusOf(), Map: mapOf(chains...)}, nil)
	states := make(map[string]int)
	for _, c := range d.Chains {
		states[c.State]++
	}
	if len(d.Chains) != maxChains || d.MoreChains != 12+18+24-maxChains || states[StateShort] != 12 || states[StateCopying] != 18 {
		t.Errorf("%d chains, %v, and %d more", len(d.Chains), states, d.MoreChains)
	}
}

// TestStaticChain: without controllers, nodes are those of the map, and agents tell which are away.
func TestStaticChain(t *testing.T) {
	v := &View{Map: mapOf([]int{0, 1}, []int{1, 0}), Messages: map[string]uint64{"n0": 500, "n1": 250},
		Reports: []*agent.Report{{Name: "n0", Plane: "xdp", Mode: "native"}, {Name: "n1", Error: "refused"}}}
	d := Build(time.Time{}, v, nil)
	if n := d.Nodes[0]; d.Cluster != "test" || n.Standing != "up" || n.Plane != "xdp" || n.Load != 1 || n.Heads != 1 || n.Shards != 2 {
		t.Errorf("%+v", n)
	}
	if n := d.Nodes[1]; n.Standing != "away" || n.Trouble != "refused" || n.Load != 0.5 {
		t.Errorf("%+v", n)
	}
}

func TestRates(t *testing.T) {
	report := func(name string, counts ...uint64) *agent.Report {
		r := &agent.Report{Name: name}
		for _, n := range counts {
			r.Counters = append(r.Counters, agent.Count{Messages: n})
		}
		return r
	}
	got := rates([]*agent.Report{report("a", 100, 50), report("b", 900)},
		[]*agent.Report{report("a", 1100, 150), report("b", 3), report("c", 7)}, 2*time.Second)
	if len(got) != 1 || got["a"] != 550 {
		t.Errorf("%v", got)
	}
}

// TestEmptyView: the page draws a document before anything is known, so no list is null.
func TestEmptyView(t *testing.T) {
	text, err := json.Marshal(Build(time.Time{}, &View{Gateways: []string{"a", "b"}, Failed: []pages.Failure{{Gateway: "b", Reason: "away"}},
		Keys: make([]placement.Explanation, maxKeys+9), Troubles: map[string]string{"chains": "no answer", "a": "b"}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Nodes == nil || d.Chains == nil || d.Events == nil || len(d.Keys) != maxKeys || len(d.Gateways) != 2 ||
		d.Gateways[1].Trouble != "away" || !slices.Equal(d.Troubles, []string{"a: b", "chains: no answer"}) {
		t.Errorf("%s", text)
	}
}

func TestCompare(t *testing.T) {
	whole := &View{Status: statusOf("up", "up", "up", "up"), Map: mapOf([]int{0, 1, 2}, []int{0, 1, 2})}
	whole.Status.Shards = admin.ShardCounts{Total: 2, FullyReplicated: 2}
	whole.Status.Controllers = []admin.Controller{{Address: "c1", Reachable: true}, {Address: "c2", Reachable: true}}
	failed := &View{Status: statusOf("up", "suspected", "up", "up"), Map: mapOf([]int{0, 2}, []int{0, 2})}
	failed.Status.Shards = admin.ShardCounts{Total: 2, UnderReplicated: 2}
	failed.Status.Controllers = []admin.Controller{{Address: "c1"}, {Address: "c2", Reachable: true}}
	copying := &View{Status: failed.Status, Map: mapOf([]int{0, -3, 2}, []int{0, -3, 2})}
	repaired := &View{Status: whole.Status, Map: mapOf([]int{0, 3, 2}, []int{0, 3, 2})}
	moved := &View{Status: whole.Status, Map: mapOf([]int{0, 3, 1}, []int{0, 3, 2})}
	for _, c := range []struct {
		before, after *View
		want          []string
	}{
		{whole, whole, nil},
		{&View{}, whole, nil},
		{whole, failed, []string{"failure controller c1 is away", "failure node n1 is suspected", "failure node n1 left 2 shards: 0-1"}},
		{failed, copying, []string{"repair node n3 gets a copy of 2 shards: 0-1"}},
		{copying, repaired, []string{"repair controller c1 is back", "repair node n1 is up, it was suspected",
			"repair all 2 shards are whole", "repair node n3 serves 2 shards: 0-1"}},
		{repaired, moved, []string{"repair node n1 serves shard 0", "change node n2 left shard 0"}},
	} {
		var got []string
		for _, e := range Compare(c.before, c.after) {
			got = append(got, e.Kind+" "+e.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q\nnot\n%q", got, c.want)
		}
	}
}
