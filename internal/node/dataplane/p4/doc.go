// Package p4 runs a node as a P4 program on a software switch: DPDK's SWX pipeline, as p4c compiles it from p4/netcraq.p4.
//
// # Parts
//
// [Switch] is the interface of a target: tables, registers, frames. The only target is SWX, a separate process (p4/engine).
// [Node] is the control plane of one node on a switch: it gives keys their places, configures shards, and reads and writes
// the registers. [Plane] is a node on network interfaces, for agents.
//
// # Keys
//
// A switch matches a key exactly to a place in its registers, and only the control plane makes places. A frame that needs
// one goes to the CPU port: the node makes the place and hands the frame in again. Where there is none left, it sets a
// register, and the program answers FULL.
//
// # Atomicity
//
// The engine handles frames and requests one after the other. No frame is handled between Pause(true) and Pause(false).
package p4
