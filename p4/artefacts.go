// Package p4 has the P4 programs, the artefacts that p4c compiled from them, and a manifest of both.
package p4

import _ "embed"

// Program is the node for DPDK's SWX pipeline: netcraq.p4, compiled.
//
//go:embed netcraq.spec
var Program []byte

// Info is the node's P4Info, as text.
//
//go:embed netcraq.p4info.txtpb
var Info []byte

// Swap only swaps the addresses of each packet: swap.p4, compiled.
//
//go:embed swap.spec
var Swap []byte
