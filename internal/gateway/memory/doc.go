// Package memory serves etcd's API from a keyspace that is kept in a chain, in the memory of its nodes.
//
// One gateway of a keyspace is active: the holder of the chain's lock of that keyspace. It orders commands, appends
// them in batches to the keyspace's log (package chainlog), applies them to its copy (package keyspace) when the chain has
// committed them, and then answers. The others read the log and apply the same commands. They serve watches and
// serializable reads from their own copy, and forward all other calls to the active gateway.
//
// When the active gateway is gone, another one takes the lock, reads the log to its end, and continues. Its copy, its
// revisions and its watchers stay as they are.
package memory
