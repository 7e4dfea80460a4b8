// Package peer runs the systems that NetCRAQ is compared with (etcd, ZooKeeper, Redis, memcached) and NetCRAQ itself, side by
// side on one machine, and asks all of them for the same work.
//
// [Open] starts a system in a lab of its own: its servers on the hosts n1, n2 and n3, which stand in a line, and the clients on the
// machine, next to n1. So a packet costs the same whoever sends it. Of a replicated system the clients talk to the
// leader, which is on n1. Everything a system stores is in memory (tmpfs), so that the disk is no handicap. What is chosen is
// in [Store.Settings], to be printed beside every figure.
//
// [Run] drives a store through its ordinary client library: a number of clients, one request at a time each or several at once
// ([Load].Pipeline), as fast as they are answered or at a given rate. [Peak] looks for the number of clients with which a
// system does most. [Fastest] are figures of load generators that a system has of its own, which spare it what a
// client on sockets costs; a ratio of them to figures of Run has to say which side pays for a client.
//
// Servers are children of this process and end with it, however it ends.
package peer
