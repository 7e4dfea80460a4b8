// Package failover measures what the loss of a node, and putting a new one into its place, cost clients of the papers' protocols: NetChain's
// figure of throughput over time, with 1 or 100 virtual groups, and the same for NetCRAQ as published. It does for them what
// internal/verify/chaos does for this project's own clusters, with as many clients that do the same, and gives figures of the same names.
//
// The nodes are the pure machines in a network of software switches (internal/eval/baseline/fabric); clients, beats and the controller
// (internal/eval/baseline/control) are real.
package failover
