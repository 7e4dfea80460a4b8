// Package fabric is a network of software switches for nodes of the papers' protocols: hosts with
// ordinary sockets on one side of a TUN device, the pure machines on the other. All packets between
// two of them pass a switch in the middle, the neighbour at which control planes install their
// rules, and may get lost on any link.
//
// It lives in a network namespace without a name, and is gone when the process is, however it ends.
package fabric
