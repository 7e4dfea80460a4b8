// Package deployment repeats the experiment of the paper on Kubernetes: a Deployment grows from 2 to 25 pods on four
// nodes and is removed. The API server uses etcd directly, a gateway that caches nothing, a gateway that answers reads
// from the chain, or etcd whose members read through the chain, on one cluster of [github.com/netcraq/netcraq/internal/verify/kubernetes].
package deployment
