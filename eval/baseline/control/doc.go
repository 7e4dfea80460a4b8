// Package control is the control plane that the papers describe for their protocols, as small as it
// can be and real: it notices that a node is silent, leads traffic around it, and puts a new node
// into its place, while the data plane goes on.
//
// NetChain: fast failover is one rule for each virtual group at the failed node's neighbours.
// Recovery goes from group to group in two phases: queries of the group that would go to the failed
// node are dropped while the group's keys are copied to the new node, then they go there. NetCRAQ as
// published: the node is taken out of forwarding and multicast; a new one gets a copy while writes
// are disabled in the whole chain. Both copy at a given rate at most, as control planes of switches
// do.
package control
