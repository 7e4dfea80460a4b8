// Package p4 holds what p4c made of the P4 programs beside it, and says of what.
package p4

import _ "embed"

// Program is the node for DPDK's SWX pipeline: netcraq.p4, compiled.
//
//go:embed netcraq.spec
var Program []byte
