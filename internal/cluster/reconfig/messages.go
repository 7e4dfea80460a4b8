package reconfig

import (
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// Registration is a node's first message, of a new node or of one that is back.
type Registration struct {
	Name        string
	Addr        netip.AddrPort
	API         string
	Labels      map[string]string
	Capacity    uint32
	Incarnation uint64
	CellBytes   int
	Cluster     string // as welcomed before; empty: any
	Shards      int    // as its plane was opened with; 0: not yet
}

// Heartbeat is a node's report to every controller, sent every Settings.Heartbeat and when it changes; less often to a
// controller that hears the node's data plane ([Beats]).
type Heartbeat struct {
	Node        NodeID
	Incarnation uint64
	Stamp       uint64        // the node's clock when it was sent; 0: it asks for no grant
	LeaseLeft   time.Duration // then; not positive: it may not answer
	Done        uint64        // number of the last [Order] of this term that was applied
	Term        uint64        // of that order
	Refused     string        // why the newest order cannot be applied, or a copy not be completed; empty: they can
	Copies      []Copied      // progress of copies; a complete one is reported until the shard's epoch changes
	Wiping      int           // shards that it left and still deletes or scans (C8); until then it cannot join them
	TagsSince   uint64        // [TagStep.Since] of the phase that its data plane is in
	NoTags      string        // why it cannot go to the newest phase, or to none with tags; empty: it can
	// ControllersSince is [ControllerSet.Since] of the set that it follows: it takes the grants of that set, and is
	// connected to the controller that joins.
	ControllersSince uint64
	// Departing announces that the agent ends soon, and that its data plane goes on until the next agent. The agent
	// waits for a [Release], but not for long.
	Departing bool
}

// Grant is a controller's answer to a [Heartbeat] of a node in good standing.
type Grant struct {
	Stamp    uint64
	Lease    time.Duration
	Majority int // how many controllers' grants a lease needs
	// SetID names the set of these controllers. Grants of several sets are not counted together (L7).
	SetID uint32
}

// Order is the leader's instruction to a node. It contains everything that the node has not confirmed, so only the newest
// counts. An order without shards asks for the node's [Inventory].
type Order struct {
	Term    uint64 // of the leader: the revision of its election
	Number  uint64 // grows within a term
	Configs map[uint16]ShardOrder
}

// ShardOrder is the configuration of a shard that a node should have. State None: it leaves, and deletes or keeps the data.
type ShardOrder struct {
	Config chain.ShardConfig
	Source string // API address to copy the shard from: a learner, or a node that a shard is held for; empty: no copy
	// Fresh: the chain is the shard's first, and its members begin empty. Otherwise a node refuses to become a full member
	// without a complete copy.
	Fresh bool
	Keep  bool   // with State None: a node that is or was a full member keeps its copy (C7)
	Born  uint32 // with a source: epoch since which kept data is valid (C9); 0: none is
}

// Copied is the progress of a shard's copy.
type Copied struct {
	Shard    uint16
	Epoch    uint32 // of the chain it is copied for
	Objects  uint64
	Bytes    uint64 // sent by the source
	Complete bool
}

// Sweep is a node's report of the tombstones in the shards whose chain it is in, sent after it looked for them. A node
// that never sent one takes no floors: chains with it get none.
type Sweep struct {
	Node        NodeID
	Incarnation uint64
	Shards      []Tombstones
	Pressing    bool // tombstones fill the node's table of objects
}

// Tombstones is the part of one shard.
type Tombstones struct {
	Shard   uint16
	Epoch   uint32 // of the configuration in which the node looked
	Count   uint64 // committed ones above the bar
	Highest uint64 // version of these
	Drained uint64 // at the head: a floor that it uses, below which everything is committed on the whole chain
}

// Inventory lists a node's shards. The node sends it after its registration, and after the first order of a new term,
// which is empty. The leader sends no other orders before it has the inventory. A shard whose copy was interrupted by the
// end of the agent is not in it, so that the leader orders the copy again.
type Inventory struct {
	Node        NodeID
	Incarnation uint64
	Term        uint64 // the node refuses orders of a lower term; the leader ignores inventories of other terms
	// Configs are those of shards that the node is in, and of those that it left and keeps: State None, with a Base.
	Configs map[uint16]chain.ShardConfig
}
