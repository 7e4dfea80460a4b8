package reconfig

import (
	"net/netip"
	"time"
)

// NodeID identifies a node. It is assigned when the node first joins, and never used again; 0 is no node.
type NodeID uint32

// Standing is a node's place in the cluster.
type Standing uint8

const (
	Up             Standing = iota + 1
	Draining                // up, but to be in no chain
	Fenced                  // suspected: gets no grants until it has confirmed that it left every chain it was removed from
	Removed                 // has left the cluster; kept so that its name and ID are not used again
	FencedDraining          // fenced, and drains again when it is back
)

// Fenced reports whether a node of this standing gets no grants.
func (s Standing) Fenced() bool { return s != Up && s != Draining }

// Draining reports whether a node of this standing is to be in no chain, but not removed.
func (s Standing) Draining() bool { return s == Draining || s == FencedDraining }

// Node is the durable record of a node.
type Node struct {
	ID          NodeID
	Name        string
	Addr        netip.AddrPort    // data plane
	API         string            // agent, TCP
	Labels      map[string]string // such as zone, rack
	Capacity    uint32            // share of the shards, relative to other nodes
	Incarnation uint64            // drawn by a node that starts without state; another one means that the state is gone
	Standing    Standing
	FencedBy    uint64 // number of the [Change] that fenced it last
	Cordoned    bool   // it drains because its machine is cordoned, and no operator drained it
}

// Shard is the durable record of a shard's chain. A [Change] that breaks what is said of Epoch, Members,
// Learner, FrozenFor, Lost, Floor, Bar or Swept is refused.
type Shard struct {
	// Epoch rises with each change of the chain. 0: there was no chain yet.
	Epoch uint32
	// Members are the nodes of the chain, the head first, each once. Without members the shard has no chain.
	Members []NodeID
	// Learner is the member whose copy is not complete, neither the head nor the tail. Without another epoch it can
	// only become 0: none.
	Learner NodeID
	// FrozenFor is the node, not a member, that copies the shard from a chain of one, which is frozen meanwhile. 0: none.
	FrozenFor NodeID
	// Extra counts the members wanted beyond Settings.Replicas, because the shard is hot.
	Extra uint8
	// Fresh: the members may have nothing, as the chain is the first, or no node has joined since.
	Fresh bool
	// Lost: every complete copy is gone with its node's state, so an operator has to decide. There are no Members.
	Lost bool
	// Born is the epoch since which no complete copy was lost: older copies are of another lineage (C9).
	Born uint32
	// Floor is below all new versions (G1). It never falls.
	Floor uint64
	// Bar: all versions up to it are committed on the whole chain (G2). It never falls, and is at most Floor.
	Bar uint64
	// Swept is the epoch in which Bar rose last: copies from before are not used (G5). It never falls, and is at most
	// Epoch.
	Swept uint32
}

// Settings configure a cluster. Replicas, the times (L5) and the tags (T6) may change while it runs, the rest is fixed.
type Settings struct {
	Cluster   string        // a random name: nodes and controllers of another cluster are refused
	Shards    int           // a power of two, at most wire.MaxShards
	Replicas  int           // members of a chain, at most wire.MaxChain
	Spread    string        // label that the members of a chain should differ in; empty: none
	CellBytes int           // every node's longest value
	Heartbeat time.Duration // between two heartbeats of a node
	Lease     time.Duration // that a grant lasts, from the heartbeat's stamp
	Suspect   time.Duration // heartbeat timeout after which a node is suspected
	// Upper bounds of Lease and Suspect, which grow where processes pause.
	LeaseMax, SuspectMax time.Duration
	Sure                 time.Duration // heartbeat timeout after which a node is taken out of a chain of two (C6)
	Longest              time.Duration // that any grant was ever allowed to last; zero: as the present times say (L5)
	Tags                 TagStep
}

// Defaults, also of clusters that an older release formed without these settings.
const (
	DefaultLeaseMax   = 500 * time.Millisecond
	DefaultSuspectMax = 500 * time.Millisecond
	DefaultSure       = 2 * time.Second
)

// State is the durable state, which controllers keep in etcd. A new leader learns everything else from the nodes.
type State struct {
	Settings Settings
	Nodes    map[NodeID]*Node
	Shards   []Shard
	Change   uint64 // number of the last [Change]
	// Controllers are those whose grants make a lease.
	Controllers ControllerSet
}

// Change is one durable step of the state. Entries replace; nothing is deleted.
type Change struct {
	Number   uint64 // State.Change after it
	Nodes    []Node // by ID
	Shards   map[uint16]Shard
	Replicas int     // Settings.Replicas from now on; 0: as before
	Times    Times   // from now on; zero: as before
	Tags     TagStep // from now on; zero: as before
	// Controllers from now on; Since 0: as before.
	Controllers ControllerSet
}
