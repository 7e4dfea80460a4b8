// Package controller is the process around [reconfig.Leader] and [reconfig.Grantor]. It keeps their state in etcd (package
// store), takes part in the election there, accepts the connections of nodes, and serves clients, operators and other
// controllers by api/controller.proto.
//
// Every controller watches the state in etcd and grants leases from it. The leading controller also runs a Leader in one
// goroutine with an inbox, so that incoming messages do not wait for etcd, and etcd does not wait for them.
//
// # Leadership
//
// Leadership is a key in etcd. A controller takes the key if it is absent, or if its owner is gone: the connection to the
// owner broke, and the owner's address refuses a new one. That is only a hint. A live leader that was replaced can write
// nothing any more (package store), and nodes refuse its orders once they know a higher term. Without such a hint, the
// leader's lease in etcd must expire.
package controller
