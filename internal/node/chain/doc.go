// Package chain is one node's state machine, the executable form of spec/protocol.md: a message in, messages out.
//
// It is pure: no I/O, no clock, no goroutine and no randomness. The caller passes the time and the sender's address,
// encodes and sends the returned messages before it calls again, and serialises calls. Data planes are held to this
// package: internal/node/dataplane/soft wraps it in sockets, internal/node/dataplane/xdp must give the same bytes and
// the same state.
package chain
