// Package etcdgateway compares an etcd behind a gateway with the same etcd without it. Clients, requests and members
// are the same, and the two are measured in turn within each round. Members and the gateway are processes of their own,
// so this process has the clients only.
package etcdgateway
