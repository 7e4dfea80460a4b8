// Package lab builds a network of hosts on one machine: network namespaces joined by veth pairs, routed by the
// kernel, with the nodes of a chain and clients in them, and with faults that can be switched on while it runs.
//
// A lab is described by its [Options]; everything else (hosts, links, addresses, routes) follows from them and is
// computed by pure code in plan.go and routes.go. Every host has one address, a /32 on its loopback device; links have
// none. Every link runs through the lab's namespace "wires", where one XDP program passes frames from one end to the
// other and loses, repeats or damages some of them (bpf/tools/fault.bpf.c). Its random numbers are the kernel's and
// have no seed: a run with faults cannot be repeated frame by frame.
//
// What a lab is made of is written to its state file before it is made, and everything is found again by
// name, so [Down] cleans up after a lab that was killed at any point.
package lab
