package admin

import (
	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/platform/build"
)

// Snapshot is the leader's status at a moment.
type Snapshot struct {
	Static      bool         `json:"static,omitempty"` // without controllers; then only Epoch, Shards and Nodes say something
	Epoch       uint32       `json:"epoch,omitempty"`  // of a static chain
	Cluster     string       `json:"cluster"`
	Leader      string       `json:"leader"`
	Term        uint64       `json:"term"`
	Change      uint64       `json:"change"`
	Replicas    uint32       `json:"replicas"`
	CellBytes   uint32       `json:"cell_bytes"`
	Times       Times        `json:"times"`
	Tags        bool         `json:"tags"`      // the aim
	TagPhase    string       `json:"tag_phase"` // how far the cluster is
	TagsAwait   []string     `json:"tags_await,omitempty"`
	Spread      string       `json:"spread"`
	Shards      ShardCounts  `json:"shards"`
	CopiedBytes uint64       `json:"copied_bytes"` // since the leader's election
	Nodes       []Node       `json:"nodes"`
	Controllers []Controller `json:"controllers"`
	Hot         []HotShard   `json:"hot_shards"`
	Keyspaces   []Keyspace   `json:"keyspaces,omitempty"` // on disks
	Notes       []string     `json:"notes"`
}

// Times are a cluster's times, in milliseconds.
type Times struct {
	Heartbeat  float64 `json:"beat_ms"`
	Suspect    float64 `json:"suspect_ms"`
	Lease      float64 `json:"lease_ms"`
	LeaseMax   float64 `json:"lease_max_ms"`
	SuspectMax float64 `json:"suspect_max_ms"`
	Sure       float64 `json:"sure_ms"`
}

func timesOf(t *controllerv1.Times) Times {
	ms := func(us uint64) float64 { return float64(us) / 1000 }
	return Times{
		Heartbeat: ms(t.GetBeatUs()), Suspect: ms(t.GetSuspectUs()), Lease: ms(t.GetLeaseUs()),
		LeaseMax: ms(t.GetLeaseMaxUs()), SuspectMax: ms(t.GetSuspectMaxUs()), Sure: ms(t.GetSureUs()),
	}
}

// ShardCounts counts shards by state.
type ShardCounts struct {
	Total           uint32 `json:"total"`
	FullyReplicated uint32 `json:"whole"`    // active with all the members wanted
	UnderReplicated uint32 `json:"short"`    // active with fewer
	Changing        uint32 `json:"changing"` // taking no writes at this moment
	Down            uint32 `json:"down"`     // no complete copy within reach
	Copying         uint32 `json:"copying"`
	Catching        uint32 `json:"catching_up"` // of Copying: to a node that kept its state and copies only the changes
	Moves           uint32 `json:"moves"`       // planned and not begun
}

// Node is one node of a [Snapshot].
type Node struct {
	ID         uint32            `json:"id"`
	Name       string            `json:"name"`
	Addr       string            `json:"addr"`
	API        string            `json:"api"`
	Standing   string            `json:"standing"`
	Labels     map[string]string `json:"labels"`
	Capacity   uint32            `json:"capacity"`
	Heads      uint32            `json:"heads"`
	Shards     uint32            `json:"shards"`
	Learning   uint32            `json:"learning"`
	Reads      uint64            `json:"reads_per_s"`
	Writes     uint64            `json:"writes_per_s"`
	Objects    uint64            `json:"objects"`
	MaxObjects uint64            `json:"max_objects"`
	SilentMS   uint32            `json:"silent_ms"`
	Trouble    string            `json:"trouble,omitempty"`
	Version    string            `json:"version,omitempty"` // of its program; empty: not known
}

// Controller is one controller of a [Snapshot].
type Controller struct {
	Address   string `json:"address"`
	Leads     bool   `json:"leads"`
	Reachable bool   `json:"reachable"`
	Change    uint64 `json:"change"`            // that it has applied; 0: not known
	Version   string `json:"version,omitempty"` // of its program; empty: not known
}

// HotShard is one of the busiest shards.
type HotShard struct {
	Shard   uint32   `json:"shard"`
	Epoch   uint32   `json:"epoch"`
	Members []string `json:"members"`
	Reads   uint64   `json:"reads_per_s"`
	Writes  uint64   `json:"writes_per_s"`
	Extra   uint32   `json:"extra"` // members because it is hot
}

// Keyspace is a keyspace on disks.
type Keyspace struct {
	Name      string   `json:"name"`
	Era       uint64   `json:"era"`
	Prepared  uint64   `json:"prepared,omitempty"` // the era that is being prepared
	Disks     []string `json:"disks"`              // the gateways whose disks count
	Gateways  []string `json:"gateways"`
	Addresses []string `json:"addresses"` // of the gateways
}

// CountingDisks is the number of gateways whose disks count; 0 while the next era is prepared.
func (k *Keyspace) CountingDisks() int {
	if k.Prepared != 0 {
		return 0
	}
	return len(k.Disks)
}

func keyspaceOf(in *controllerv1.Keyspace) Keyspace {
	k := Keyspace{
		Name: in.GetName(), Era: in.GetActive().GetNumber(), Prepared: in.GetRecovering(), Disks: []string{}, Gateways: []string{},
		Addresses: []string{},
	}
	for _, g := range in.GetGateways() {
		k.Gateways, k.Addresses = append(k.Gateways, g.GetMember()), append(k.Addresses, g.GetAddress())
		for _, d := range in.GetActive().GetDisks() {
			if d.GetName() == g.GetDisk().GetName() && d.GetIdentity() == g.GetDisk().GetIdentity() {
				k.Disks = append(k.Disks, g.GetMember())
			}
		}
	}
	return k
}

// remaining is how many shards something is done for, or is planned.
func (s *ShardCounts) remaining() uint32 { return s.Copying + s.Moves }

func snapshot(in *controllerv1.StatusResponse) *Snapshot {
	s := &Snapshot{
		Cluster: in.GetCluster(), Leader: in.GetLeader(), Term: in.GetTerm(), Change: in.GetChange(), Replicas: in.GetReplicas(),
		Times: timesOf(in.GetTimes()), Tags: in.GetTags(), TagPhase: in.GetTagPhase(), TagsAwait: in.GetTagsAwait(), Spread: in.GetSpread(),
		CellBytes: in.GetCellBytes(), CopiedBytes: in.GetCopiedBytes(), Notes: append([]string{}, in.GetNotes()...),
		Shards: ShardCounts{Total: in.GetShards(), FullyReplicated: in.GetShardsWhole(), UnderReplicated: in.GetShardsShort(),
			Changing: in.GetShardsChanging(),
			Down:     in.GetShardsDown(), Copying: in.GetShardsCopying(), Catching: in.GetShardsCatchingUp(), Moves: in.GetMoves()},
		Nodes: []Node{}, Controllers: []Controller{}, Hot: []HotShard{},
	}
	for _, n := range in.GetNodes() {
		s.Nodes = append(s.Nodes, Node{ID: n.GetId(), Name: n.GetName(), Addr: n.GetAddr(), API: n.GetApi(), Standing: n.GetStanding(),
			Labels: n.GetLabels(), Capacity: n.GetCapacity(), Heads: n.GetHeads(), Shards: n.GetShards(), Learning: n.GetLearning(),
			Reads: n.GetReads(), Writes: n.GetWrites(), Objects: n.GetObjects(), MaxObjects: n.GetMaxObjects(),
			SilentMS: n.GetSilentMs(), Trouble: n.GetTrouble(), Version: n.GetVersion()})
	}
	for _, c := range in.GetControllers() {
		s.Controllers = append(s.Controllers,
			Controller{c.GetAddress(), c.GetLeads(), c.GetReachable(), c.GetChange(), c.GetVersion()})
	}
	for _, k := range in.GetKeyspaces() {
		s.Keyspaces = append(s.Keyspaces, keyspaceOf(k))
	}
	for _, h := range in.GetHot() {
		s.Hot = append(s.Hot, HotShard{h.GetShard(), h.GetEpoch(), h.GetMembers(), h.GetReads(), h.GetWrites(), h.GetExtra()})
	}
	return s
}

// otherVersions lists the processes whose versions are known and are not that of this program.
func (s *Snapshot) otherVersions() (list []string) {
	add := func(process, version string) {
		if version != "" && build.Other(version) != "" {
			list = append(list, process+" "+version)
		}
	}
	for _, n := range s.Nodes {
		add(n.Name, n.Version)
	}
	for _, c := range s.Controllers {
		add(c.Address, c.Version)
	}
	return list
}

// Node finds a node by name.
func (s *Snapshot) Node(name string) (Node, bool) {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}
