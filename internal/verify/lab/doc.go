// Package lab builds a network of hosts on one machine: network namespaces joined by veth pairs,
// with the kernel's routing. The nodes of a chain and clients run in it. Faults can be injected
// while it runs.
//
// The [Options] describe a lab. Hosts, links, addresses and routes follow from them by pure code in
// plan.go and routes.go. Every host has one address, a /32 on its loopback device; links have no
// addresses. Every link runs through the lab's namespace "wires". There one XDP program forwards
// frames from one end to the other and drops, duplicates or damages some of them
// (bpf/tools/fault.bpf.c). Its random numbers come from the kernel without a seed, so a run with
// faults cannot be repeated frame by frame.
//
// The state file lists the parts of a lab before they are made, and every part is found again by
// name. So [Down] can clean up after a lab that was killed at any point.
package lab
