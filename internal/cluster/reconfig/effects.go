package reconfig

import (
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Effect is an action that a [Leader] asks of its caller.
type Effect interface{ effect() }

// Store asks for a change to be made durable, guarded by the leadership. [Leader.Stored] takes the outcome; until then the
// leader asks for no other.
type Store struct{ Change Change }

// Send asks for an order to be given to a node. A lost one is sent again.
type Send struct {
	Node  NodeID
	Order Order
}

// LeaseWait asks every controller, this one included, how long its grants to some nodes may last after it has applied a
// change: [Grantor.LeaseLeft]. The answers go to [Leader.LeaseLeft]. The caller repeats the question until all have
// answered or the leader ended.
type LeaseWait struct {
	Change uint64
	Nodes  []NodeID
}

// Place asks for a plan, made in the background because it takes long in a large cluster. The result of [Place.Plan] goes
// to [Leader.Planned].
type Place struct {
	Number uint64
	nodes  []topology.Candidate
	spread string
	chains []topology.Chain
}

// Probe asks other nodes whether they reach the data plane of a suspected one. If one does, its report goes to
// [Leader.Reached].
type Probe struct {
	Node    NodeID
	Addr    netip.AddrPort
	Through []NodeID
}

// Release tells a departing agent that no change of a chain needs it: it may end. It repeats with each of the agent's
// heartbeats.
type Release struct {
	Node NodeID
	Term uint64 // of the leader
}

// Event is for the log.
type Event struct{ Text string }

func (Store) effect()     {}
func (Send) effect()      {}
func (LeaseWait) effect() {}
func (Place) effect()     {}
func (Probe) effect()     {}
func (Release) effect()   {}
func (Event) effect()     {}

// Plan makes the plan. It may run in another goroutine.
func (p Place) Plan() *topology.Plan {
	return topology.NewRing(p.nodes, p.spread).Plan(p.chains)
}

// Command is a request of an operator or of the load policy.
type Command interface{ command() }

// The commands. They use the names of nodes.
type (
	Drain     struct{ Node string } // take the node out of all chains, with others in its place
	Undrain   struct{ Node string }
	Cordon    struct{ Node string } // drain the node while its machine is cordoned in Kubernetes
	Uncordon  struct{ Node string } // end what Cordon began
	Remove    struct{ Node string } // forget a node that is in no chain, for ever
	Replicas  struct{ Members int } // of every chain
	MoveShard struct {
		Shard    uint16
		From, To string
	}
	Resize struct {
		Shard uint16
		Extra uint8
	} // members beyond Replicas
	HandOver struct {
		Shard uint16
		From  string
	} // the head leaves the chain and returns inside it, so the second member is the head (C11)
	AcceptLoss struct{ Shard uint16 } // a lost shard starts anew, empty
	SetTimes   struct{ Times Times }  // zero times stay (L5)
	SetTags    struct{ On bool }      // messages carry tags, or none (T6)
	RaiseFloor struct{ Floor uint64 } // of every shard, if it is lower (G7)
	Fail       struct{ Node string }  // it is certain that the node has failed (C6)
)

func (Drain) command()      {}
func (Undrain) command()    {}
func (Cordon) command()     {}
func (Uncordon) command()   {}
func (Remove) command()     {}
func (Replicas) command()   {}
func (MoveShard) command()  {}
func (Resize) command()     {}
func (HandOver) command()   {}
func (AcceptLoss) command() {}
func (SetTimes) command()   {}
func (SetTags) command()    {}
func (RaiseFloor) command() {}
func (Fail) command()       {}

// Status is a leader's report for operators.
type Status struct {
	FullyReplicated int          // shards active with all the members wanted
	UnderReplicated int          // active with fewer
	Changing        int          // taking no writes now
	TagsAwaited     []string     // nodes that are not in the present phase of tags yet, and why
	Awaited         []string     // nodes that do not follow the present set of controllers yet
	Down            int          // no complete copy within reach, or lost
	Copying         int          // with a copy under way
	Catching        int          // of these, to a node that kept the shard, and needs only the changes
	Copied          uint64       // bytes copied since the leader began, of shards whose copy is complete or under way
	Moves           int          // planned and not begun
	Notes           []string     // messages for operators, the most urgent first
	Nodes           []NodeStatus // by ID
}

// NodeStatus is one node's part of [Status].
type NodeStatus struct {
	ID       NodeID
	Heads    int
	Shards   int
	Learning int
	Silent   time.Duration // since its last heartbeat; negative: there was none
	Trouble  string        // reason why it does not work as it should; empty: it does
}

// emit queues an effect.
func (l *Leader) emit(e Effect) { l.effects = append(l.effects, e) }

// Effects returns and clears the queued effects, in order. The caller asks after every other call.
func (l *Leader) Effects() []Effect {
	effects := slices.Clip(l.effects)
	l.effects = nil
	return effects
}
