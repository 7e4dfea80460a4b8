// Package etcd starts and stops clusters of etcd servers in separate processes, for benchmarks to
// compare with. Controllers use an embedded etcd instead: see internal/cluster/controller/store.
package etcd
