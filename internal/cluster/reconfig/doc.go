// Package reconfig is the control plane's two sides as pure step functions: no I/O, clock, goroutine or randomness, so
// that internal/verify/sim runs the very code that internal/cluster/controller and internal/node/agent run.
//
//   - [Leader] decides: who is in which chain, in which order a change happens (C1 to C9). One exists in the cluster: the
//     elected controller has it.
//   - [Grantor] gives leases. Every controller has one, leader or not.
//   - [Member] is a node's part: it applies orders, and holds a lease while a majority of the controllers grant it.
//
// # Leases
//
// A node sends every controller a [Heartbeat] with a stamp of its own clock; a controller that finds the node in good standing
// (its incarnation is the recorded one, it is not fenced) answers with a [Grant] of that stamp. The node may read until
// stamp + Settings.Lease for a majority of the controllers. So the death of a controller, the leading one too, takes
// nothing from anybody, and neither does an etcd that is away.
//
// To end a node's lease for certain, the leader makes it fenced (durable, in the same change as the new epochs of its
// shards), and waits until a majority of the controllers say that they have applied that revision, and how long the
// grants they gave before may last. A majority that grants and a majority that fences have a controller in common.
//
// # A change of a shard's chain
//
// Durable epoch; FREEZE the members of the new chain; in the meantime every node that is outside the new chain and may still
// hold a lease has confirmed that it left, or is fenced and its wait is over; ACTIVATE. Nothing is copied (C2: the new head
// is the first complete survivor and the order of the survivors stays; an active tail's copy counts as committed).
//
// Orders are level-triggered: the leader knows what each node should be configured as and what it has confirmed, and sends
// the difference until it is confirmed. All orders carry the term; epochs never go back; so a lost, repeated or late
// order does no harm.
//
// # What always holds
//
// The tests of this package check it after every event, with real leaders, grantors, leases and members, whatever messages are lost
// and whoever stops, is cut off or comes back:
//
//   - S1: nothing is active in an epoch that is not durable.
//   - S2: when a chain is active in an epoch, nobody who has an older one may answer: all members of the chain have frozen, and who is
//     not a member any more has left or holds no lease.
//   - S3: whoever may answer (a full member, active or frozen, with a lease) has every write that was acknowledged.
//   - S4: a node is made a full member in the state only when it has said that it is complete in the shard's present epoch, or the chain
//     is the shard's first (Fresh). The last member that is known to be complete is never taken out of a chain but for an operator's word.
//
// and that, when nothing fails any more, every shard is soon active with all the members that it wants.
package reconfig
