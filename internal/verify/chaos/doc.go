// Package chaos tests a managed cluster under failures: real controllers, agents and data planes in
// a lab, with real clients.
//
//   - [Chaos] injects many faults from a seed, never more at once than the chains can survive. It checks that the clients'
//     history is linearizable and that no acknowledged write is lost.
//   - [Failover] powers a node off and measures the gap of writes and reads and the time of the repair.
//   - [Join] adds a node to a chain with many objects and measures the pause of writes.
package chaos
