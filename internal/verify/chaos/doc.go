// Package chaos puts a managed cluster to the proof: real controllers, agents and data planes in a lab, real clients, and
// failures while they work.
//
//   - [Chaos] lets many faults strike, as a seed has it, never more at once than the chains can survive, and checks that
//     what clients saw is linearizable and that no acknowledged write is lost.
//   - [Failover] takes a node's power and measures how long writes and reads stop, and how long the repair takes.
//   - [Join] lets a node join a chain that has many objects, and measures how long writes pause.
package chaos
