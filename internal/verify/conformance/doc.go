// Package conformance holds every data plane to internal/node/chain: cases in readable text (spec/vectors) and
// streams of random packets, run on any [Target] and compared byte for byte.
//
// # Targets
//
// A target is one node that never has traffic of its own. [Target.Reset] makes it a node without state at the address
// [Me], [Target.Load] gives it configurations, objects and sessions, [Target.Step] hands it one Ethernet frame and
// returns the verdict and the frames it sent because of it, [Target.State] reads everything back. All addresses that
// occur lie in the network [Net], reached directly: a target that resolves routes must be able to send to each of them,
// at the Ethernet address [MACOf] that belongs to it.
//
// # Comparisons
//
// Of the frames a node sends: every byte from the IPv4 header on, in any order, and the Ethernet addresses too if it
// is a reply that goes straight back to the sender, but not the Ethernet padding that a bundle may keep. The verdict.
// One count for each frame of the node's, of a bundle one for each message. Objects and sessions, all fields. Leases
// are given relative to the present, and are long over or far from over, so that a target may use the machine's
// clock.
//
// # Source of expected results
//
// The chain target alone (internal/node/chain behind the frame layer of internal/node/dataplane/frame): [Update].
package conformance
