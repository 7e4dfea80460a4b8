// Package frame is the layers below a message: Ethernet, IPv4 and UDP, judged and built as a node in the kernel does
// it.
//
// The soft plane does not need it, because sockets do this work; it is the reference for the planes that receive
// whole frames (rules A0.1 to A0.4 of spec/protocol.md) and the way in which test cases reach them.
package frame
