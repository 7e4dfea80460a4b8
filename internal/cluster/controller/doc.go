// Package controller is the process around [reconfig.Leader] and [reconfig.Grantor]: it keeps their state in etcd (package
// store), is elected there, listens to nodes, and answers clients, operators and other controllers by api/controller.proto.
//
// Every controller follows the state in etcd and grants leases from it. The one that leads runs a Leader besides, in one
// goroutine, to which everything comes by an inbox: nothing that arrives waits for etcd, and etcd does not wait for it.
//
// # Leadership
//
// Leadership is a key in etcd. A controller takes it when nobody has it, and when the process that has it is certainly gone:
// the connection to it broke, and its address refuses another. That is a hint only: a leader that is replaced though it lives writes nothing
// any more (package store), and nodes refuse its orders once they know of a higher term. Where no such sign comes, the
// leader's lease in etcd has to run out.
package controller
