// Package keyspace is the keyspace of a memory gateway: etcd's own multi-version store and its leases, in a file in
// memory that is removed with the process. Equal commands in equal order make equal keyspaces.
package keyspace
