// Package soft runs nodes of the papers' protocols on UDP sockets: the pure machines, a goroutine or a process for each.
//
// Switches pass a request on with its client as source, which a socket cannot do. So nodes send each other such packets on a port
// of their own, led by the client's address and port; what clients see is as in spec/baselines.md. A switch also sees what is on
// its way to others. A socket does not: failure rules act on what a node sends, and clients turn to other nodes themselves.
// A [Target] holds such a node to the protocol, as far as that.
package soft
