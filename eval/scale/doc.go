// Package scale calculates how many operations a second a fabric of switches could carry if each
// switch did as much as one measured node. It counts every packet of every operation hop by hop,
// for NetChain's protocol, NetCRAQ's as published and ours. Throughput is the load at which the
// first switch is busy all the time. The calculation uses expected values, is exact for the
// assumed routes, and takes less than a second for a thousand switches.
//
// The rates of one node come from chains in a line on one machine: [Lines.Rates]. [Throughput]
// calculates the fabric's.
//
// The fabric has two layers: each leaf is connected with each spine. Each leaf has the same number
// of clients, and equal paths share packets evenly (ECMP). Consistent hashing with virtual nodes
// places keys on chains of switches.
package scale
