// Package etcd starts clusters of etcd servers as processes of their own, and stops them. It is what benchmarks
// compare with; controllers keep their state in an etcd of their own, see internal/cluster/controller/store.
package etcd
