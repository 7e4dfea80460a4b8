// Package failover measures the cost of a node's failure and replacement to clients of the papers'
// protocols. It repeats NetChain's figure of throughput over time, with 1 or 100 virtual groups,
// and does the same for NetCRAQ as published. Clients, load and names of figures are those of
// internal/verify/chaos, which measures this project's own clusters.
//
// The nodes are the pure machines in a network of software switches
// (eval/baseline/fabric). Clients, heartbeats and the controller
// (eval/baseline/control) are real.
package failover
