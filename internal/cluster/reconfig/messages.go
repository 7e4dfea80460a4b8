package reconfig

import (
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// Registration is how a node registers, or says that it is back.
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

// Heartbeat is what a node says to every controller, every Settings.Heartbeat and whenever it has news.
type Heartbeat struct {
	Node        NodeID
	Incarnation uint64
	Stamp       uint64        // the node's clock when it was sent
	LeaseLeft   time.Duration // at Stamp; not positive: it may not answer
	Done        uint64        // number of the last [Order] of this term that was applied
	Term        uint64        // of that order
	Refused     string        // why the newest order cannot be applied, or a copy not be completed; empty: they can
	Copies      []Copied      // learners' and holders' progress; a complete one is told until the shard's epoch changes
	Wiping      int           // shards that it left and still deletes, or looks through (C8): it applies no order to join them again before that is done
}

// Grant is a controller's answer to a [Heartbeat] of a node in good standing.
type Grant struct {
	Stamp    uint64
	Lease    time.Duration
	Majority int // how many controllers' grants a lease needs
}

// Order is what the leader tells a node. It holds everything that the node has not confirmed yet, so the newest alone
// counts. One without shards asks for the node's [Inventory].
type Order struct {
	Term    uint64 // of the leader: the revision of its election
	Number  uint64 // grows within a term
	Configs map[uint16]ShardOrder
}

// ShardOrder is what a node shall know of a shard. State None: leave, and delete what is stored of it, or keep it.
type ShardOrder struct {
	Config chain.ShardConfig
	Source string // API address to copy the shard from: a learner, or a node that a shard is held for; empty: no copy
	// Fresh: the chain is the shard's first, and its members begin with nothing. A node that is to be a full member otherwise, and has no
	// part in the shard, must have a complete copy: it refuses if that is gone.
	Fresh bool
	Keep  bool   // with State None: who is, or was last, a full member keeps what it stores (C7)
	Born  uint32 // with a source: since which epoch what the node keeps is of use (C9); 0: nothing is
}

// Copied is how far a copy of a shard has come.
type Copied struct {
	Shard    uint16
	Epoch    uint32 // of the chain it is copied for
	Objects  uint64
	Bytes    uint64 // sent by the source
	Complete bool
}

// Inventory is what a node has. It tells the leader when it is back (after Registration), and when it has seen a new term: after the first
// order of the term, which is empty. The leader gives no orders to a node whose inventory it does not have. A shard whose copy an agent's end
// interrupted is not in it, so that the order to copy it is given again.
type Inventory struct {
	Node        NodeID
	Incarnation uint64
	Term        uint64 // the node applies no order of a lower one any more; an inventory of another term than the leader's says nothing
	// Configs are those of shards that the node is in, and of those that it left and keeps: State None, with a Base.
	Configs map[uint16]chain.ShardConfig
}
