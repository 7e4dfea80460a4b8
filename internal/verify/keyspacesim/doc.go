// Package keyspacesim runs the decisions of internal/keyspace/core in one goroutine, from one seed, with models of the
// chain, the disks, the gateways' messages and the record in the controllers' etcd.
//
// The chain is a set of linearizable objects in shards. A shard that loses its state has none of its objects. A disk
// keeps what was written when its process is killed. When the power of its machine ends, it keeps what was synced, and of
// the rest all before some moment, to a whole entry, since checksums find a torn one. A disk is emptied only while a
// majority of each set that may have the only copies is left. Messages are late or lost. Any number of gateways may hold a
// lock for writers and recover at once.
//
// Checks, at once:
//
//   - lost: a state that is shown, to a reader, a writer or a watcher, continues all states that were shown, or is a
//     beginning of them;
//   - stale: a read is answered with no state that is shorter than what was shown before it began;
//   - stuck: after all faults, a write is acknowledged and every gateway answers a read.
package keyspacesim
