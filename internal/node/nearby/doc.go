// Package nearby reads objects of a chain from the memory of a node on the same machine, without a packet (R6).
//
// Nodes are found by the pins of their data planes. A directory of pins may be that of another cluster, whose nodes may have
// the same names and addresses in other network namespaces. So a node's memory is used only after it showed a random
// value that the client has just written to the chain.
package nearby
