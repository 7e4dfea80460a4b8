// Package wire is the codec of the NetCRAQ packet format: one message in one UDP datagram.
//
// The format is defined once, in spec/wire.yaml; constants and offsets in this package are generated from it, as
// are the C header of the XDP programs and the P4 headers. [Decode] accepts exactly the messages that a node may
// act on and says, as an [Outcome], why it refuses another. spec/protocol.md defines how nodes handle messages.
package wire
