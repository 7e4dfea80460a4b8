// Package leases measures renewals of Kubernetes' node leases on a keyspace in the memory of a chain, and on an etcd in
// the same run. Each simulated node replaces its lease object as the API server does: with a transaction that compares
// the object's revision.
package leases
