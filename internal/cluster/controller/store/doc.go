// Package store keeps [reconfig.State] in etcd, and elects the leader there. Only this package uses etcd: an embedded one by
// default, or an external one.
//
// Keys under /netcraq/CLUSTER/:
//
//	settings    the cluster's formation
//	change      the number of the last change
//	node/ID     one key a node
//	page/N      the chains of 64 shards
//	leader      the leader's address; bound to an etcd lease
//
// Beside them, under /netcraq/CLUSTER:keyspace/, is a key for the record of each keyspace on disks.
//
// Every value is JSON with the version of its format. Newer versions are refused.
//
// # Writers
//
// A leader's term is the revision of the key leader at its last claim. Every transaction compares that revision and the
// number of the previous change. So a leader that was replaced can write nothing, a late transaction has no effect, and
// repeating a transaction is safe. A change that needs several transactions writes its number with the last one, which also
// has all of its nodes. If the leader dies in between, its successor finds shards with higher epochs than any node has
// received. That is harmless, and the successor begins with a change number of its own.
package store
