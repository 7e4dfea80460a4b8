// Package xdp is the data plane in the kernel: it loads the XDP program of bpf/node/netcraq.bpf.c, fills the tables
// that configure it and reads those that packets change.
//
// Everything is pinned below one directory of the BPF file system, the attachments to ports included. So the data
// plane outlives the process that made it: [Open] finds the pins of a predecessor, takes over its tables, and swaps in
// its own program without a packet lost. [Remove] ends a node.
//
// # Whose memory is it
//
// Objects and sessions belong to packets: this package reads them, and changes them only through programs that take
// the same locks. Chains and leases belong to this package. A shard's configuration is written into the slot that is
// not in force, then put in force by one store of 8 bytes.
package xdp
