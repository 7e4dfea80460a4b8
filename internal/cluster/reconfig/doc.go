// Package reconfig is the control plane's two sides as pure step functions: no I/O, clock, goroutine or randomness, so
// that internal/verify/sim runs the very code that internal/cluster/controller and internal/node/agent run.
//
//   - [Leader] decides which nodes are in which chain, and the order of steps in a change (C1 to C9). Only the elected
//     controller runs one.
//   - [Grantor] grants leases. Every controller has one, leader or not.
//   - [Member] is a node's part: it applies orders, and holds a lease while a majority of the controllers grant it.
//
// # Leases
//
// A node sends every controller a [Heartbeat] with a stamp of its own clock; a controller that finds the node in good standing
// (its incarnation is the recorded one, it is not fenced) answers with a [Grant] of that stamp. The node may read until
// stamp + Settings.Lease for a majority of the controllers. So no node loses its lease when a controller fails, not even
// the leading one, or when etcd is not available.
//
// To end a node's lease for certain, the leader fences the node (durable, in the same change as the new epochs of its
// shards). Then it waits until a majority of the controllers have applied that change and reported how long their earlier
// grants may last. A majority that grants and a majority that fences have a controller in common.
//
// # A change of a shard's chain
//
// Durable epoch; FREEZE the members of the new chain; in the meantime every node that is outside the new chain and may still
// hold a lease has confirmed that it left, or is fenced and its wait is over; ACTIVATE. Nothing is copied (C2: the new head
// is the first complete survivor and the order of the survivors stays; an active tail's copy counts as committed).
//
// Orders are level-triggered: the leader knows the intended and the confirmed configuration of each node, and sends the
// difference until it is confirmed. All orders carry the term, and epochs never go back, so a lost, repeated or late order
// does no harm.
//
// # Invariants
//
// The tests of this package check these invariants after every event, with real leaders, grantors, leases and members,
// while messages are lost, and processes stop, are cut off and come back:
//
//   - S1: nothing is active in an epoch that is not durable.
//   - S2: when a chain is active in an epoch, no node with an older epoch may answer: all members of the chain have
//     frozen, and every former member has left or holds no lease.
//   - S3: every node that may answer (a full member, active or frozen, with a lease) has every acknowledged write.
//   - S4: a node becomes a full member in the state only after it reported a complete copy in the shard's present epoch,
//     or if the chain is the shard's first (Fresh). The last complete member leaves a chain only if an operator says so.
//
// They also check that every shard is soon fully replicated once nothing fails any more.
package reconfig
