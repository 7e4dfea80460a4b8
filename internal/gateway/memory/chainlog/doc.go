// Package chainlog stores a replicated log of batches, and snapshots of the state, in objects of a chain.
//
// The log is a ring of objects. Entry n is in object n modulo the ring's length. A writer replaces each object by
// compare-and-set, and an entry contains the writer's term and its own index. Terms are the tokens of the chain's lock,
// so a later writer has a higher term. A batch is stored in one or more entries; the last one is marked.
//
// # The entries that count
//
// A reader accepts entry n only after entry n-1, and only if its index is n and its term is not lower than that of
// entry n-1. A writer acknowledges a batch when the chain has committed all its entries and all earlier ones.
//
// A new writer reads the log to its end and writes an entry of its own term there, the fence. The write fails if an
// earlier writer was faster; then the new writer reads that entry too, and tries again at the next index. Behind the
// fence, entries of earlier terms do not count. The earlier writer needed the fence's index for its next
// acknowledgement, so no acknowledged batch is behind the fence.
//
// # Snapshots
//
// An entry is overwritten only if a snapshot contains it. Snapshots alternate between two banks of objects, and one
// object names the newest complete one. Objects of snapshots have terms as entries have, so an earlier writer cannot
// damage a later one's snapshot.
//
// # Eras
//
// A keyspace on disks has a log for each era: see internal/keyspace/core. [Eras] reads, writes, seals, makes and
// removes such logs. They have the same objects, without a description and without snapshots: disks have the state.
package chainlog
