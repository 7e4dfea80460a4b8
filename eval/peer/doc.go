// Package peer runs NetCRAQ and the systems it is compared with (etcd, ZooKeeper, Redis, memcached)
// on one machine under the same workload.
//
// [Open] starts a system in its own lab. The servers run on the hosts n1, n2 and n3, which form a
// line. The clients run on the machine, next to n1. So the network costs the same for every system.
// Clients of a replicated system talk to the leader, which is on n1. Systems store everything in
// memory (tmpfs), so that none is slowed by the disk. [Store.Settings] lists the chosen settings,
// to be printed with every figure.
//
// [Run] drives a store through its usual client library: a number of clients with one outstanding
// request or several ([Load].Pipeline), in a closed loop or at a fixed rate. [Peak] finds the
// number of clients with the highest throughput. [Fastest] reports figures of load generators that
// avoid the cost of a client on sockets. A ratio between figures of Fastest and Run must say which
// side includes that cost.
//
// Servers are children of this process and end with it, however it ends.
package peer
