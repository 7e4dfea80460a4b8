// Package soft runs nodes of the papers' protocols on UDP sockets: the pure machines, with a
// goroutine or a process for each.
//
// Switches forward a request with its client as source, which a socket cannot do. So nodes send
// each other such packets on a separate port, prefixed with the client's address and port. Clients
// see the behaviour of spec/baselines.md. A switch also sees packets in transit to other hosts. A
// socket does not: failure rules apply to packets that a node sends, and clients choose another
// node themselves. A [Target] checks such a node against the protocol within these limits.
package soft
