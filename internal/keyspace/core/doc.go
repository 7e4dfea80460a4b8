// Package core decides about a keyspace whose log is in a chain and whose state is on disks: which entries of the log
// count, what is applied and shown, when a read is answered, and how a keyspace goes on after the chain or disks are
// lost.
//
// It has no I/O, clock, goroutine or randomness. A [Replica] and a [Recovery] take events and return [Action] values.
// The caller serialises the calls, and performs the actions in their order. Keyspaces in memory use the decisions about
// the log: [Cursor], [Judge] and [Fits].
//
// # Terms
//
// The controllers' etcd holds a [Record]. It names the active [Era] and its set of disks. Each era has a log of its own
// in the chain, a ring of objects. Inside an era, writers follow one another by terms. An entry counts when a majority
// of the era's disks has synced it, or, if the set is empty, when the chain has committed it. A [Position] is an entry
// with everything before it.
//
// # The caller's duties
//
//   - Objects of the chain are linearizable. An object that the chain has lost does not come back by itself.
//   - A life of a gateway begins with what its disk has, and syncs it before [Replica.Synced] with 0.
//   - Writes to the disk take effect in the order of the actions. A power failure keeps those before some moment, and of
//     an [Append] perhaps the first entries.
//   - The disk keeps its identity as long as its content; an emptied one draws another.
//   - The caller keeps the entries that it has read until they are applied or [Enter] comes.
//   - A write of an era is acknowledged when [Replica.Counted] has its entry while the replica follows that era.
//   - A writer hands entries over, for [Replica.Pushed], when the chain has committed them and all before: [Place].
//   - A writer writes entries and fences only where [Fits] lets it, with [Replica.Counted] as released.
//   - An [Answer] goes with the identity that the disk has when it is sent.
//
// # Guarantee
//
// All states that are shown anywhere are beginnings of one list of entries. A read is answered with a state that is not
// older than any that was shown before the read began. Each [Rule] that is switched off breaks this;
// internal/verify/keyspacesim shows how. docs/keyspace.md explains the rules.
package core
