// Package store keeps [reconfig.State] in etcd, and elects the leader there. It alone knows etcd: one that it runs
// itself (embedded, by default), or somebody's own.
//
// Under /netcraq/CLUSTER/ stand
//
//	settings    the cluster's formation
//	change      the number of the last change
//	node/ID     one key a node
//	page/N      the chains of 64 shards
//	leader      the leader's address; bound to an etcd lease
//
// Every value is JSON and carries the version of its format. A newer one is refused, not guessed at.
//
// # Writers
//
// A leader's term is the revision that its last claim gave to the key leader. Every transaction compares that revision and
// the number of the change before: so a leader that another has replaced writes nothing any more, a transaction that was
// thought lost and arrives late does nothing, and repeating one is safe. A change that needs several transactions gives
// its number with the last one, which also has all of its nodes; a successor of a leader that died in between
// finds shards with higher epochs than anybody was told, which is harmless, and begins with a change number of its own.
package store
