// Package clients runs the tests of etcd's client libraries with an etcd, with the product's gateway in front of an
// etcd, and with a keyspace in memory.
package clients
