// Package netchain is one node of NetChain (Jin et al., NSDI 2018) as its paper describes it: chain replication in switches,
// the chain's addresses in the packet, reads at the tail, writes from the head, a sequence number for each key.
//
// Like internal/node/chain it is pure: a packet in, packets out. The control plane's part (places of keys, first values, failure
// rules) is done by calls. spec/baselines.md has the rules and what the paper leaves open.
package netchain
