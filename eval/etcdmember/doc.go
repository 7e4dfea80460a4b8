// Package etcdmember compares servers of etcd's API with an etcd cluster under the same load: members that read through
// a chain, or gateways of a keyspace on disks.
package etcdmember
