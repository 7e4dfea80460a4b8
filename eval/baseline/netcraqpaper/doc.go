// Package netcraqpaper is one node of NetCRAQ as its paper describes it (Sagkriotis and Pezaros,
// "Scale-friendly In-network Coordination"): 2 bits of op, 32 of key and 128 of value, registers
// objects_store, read_index and write_index, Algorithm 1, acknowledgement by multicast. It has no
// request ids, sequence numbers or epochs, because the paper has none.
//
// Like internal/node/chain it is pure: packets in, packets out. The control plane's part is
// [Config]. eval/spec/baselines.md has the rules and the questions that the paper leaves open.
package netcraqpaper
