// Package p4 runs a node as a P4 program on a software switch: DPDK's SWX pipeline, as p4c compiles it from p4/netcraq.p4.
//
// # Parts
//
// [Switch] is what a target offers: tables, registers, frames. SWX, an own process (p4/engine), is the one there is. [Node] is
// the control plane of one node on a switch: it gives keys their places, configures shards, and reads and writes what
// registers hold. [Plane] is a node on network interfaces, as agents want it.
//
// # Keys
//
// A switch matches a key exactly to a place in its registers, and only the control plane makes places. A frame that needs
// one goes to the CPU port: the node makes the place and hands the frame in again. Where there is none left, it sets a
// register, and the program answers FULL.
//
// # What stands together
//
// The engine does one thing after the other: frames, and what it is asked. A group of requests between Hold and Release sees
// no frame in between.
package p4
