// Package netchain is one node of NetChain (Jin et al., NSDI 2018) as its paper describes it:
// chain replication in switches, the chain's addresses in the packet, reads at the tail, writes
// from the head, a sequence number for each key.
//
// Like internal/node/chain it is pure: packets in, packets out. The control plane (places of keys,
// first values, failure rules) uses method calls. eval/spec/baselines.md has the rules and the
// questions that the paper leaves open.
package netchain
