// Package scale says how many operations a second a fabric of switches could carry if each did what one node was measured to do. It
// counts every packet of every operation hop by hop, for NetChain's protocol, NetCRAQ's as published and ours; throughput is where the
// first switch has no time left. It is pure arithmetic on expected values, exact for the routes that it assumes, and needs no more than a
// second for a thousand switches.
//
// What one node can do comes from chains in a line on one machine: [Lines.Rates]. What a fabric carries with it is [Throughput].
//
// The fabric has two layers: each leaf is connected with each spine. Clients are under leaves, as many under each, and equal paths share
// packets evenly (ECMP). Keys are on chains that consistent hashing places on switches, with virtual nodes.
package scale
