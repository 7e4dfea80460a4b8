// Package etcdmember compares an etcd cluster whose members read through a chain with a plain one, under the same load.
package etcdmember
