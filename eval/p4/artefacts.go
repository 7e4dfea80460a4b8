// Package p4 has the papers' protocols as P4 programs (eval/spec/baselines.md), and the artefacts that p4c compiled from
// them. They include files of the node's program in the product's folder p4.
package p4

import _ "embed"

// NetChain is netchain.p4, compiled for DPDK's SWX pipeline.
//
//go:embed netchain.spec
var NetChain []byte

// NetCRAQPaper is netcraqpaper.p4, compiled for DPDK's SWX pipeline.
//
//go:embed netcraqpaper.spec
var NetCRAQPaper []byte
