// Package cni is the plugin netcraq-cni, by version 1.1 of the CNI specification. It comes after a plugin that joins a
// pod to the machine by a veth pair, such as bridge or ptp, and gives the pod a route to the chain: the frames that the
// pod sends to one address, the same on every machine, meet the node's program at the host's end of the pair.
//
// The plugin prepares the pod's end, with a route and a permanent neighbour entry, and leaves a record for the agent:
// see package pods. It needs no agent to succeed, nor the agent the plugin: the agent attaches and detaches until its
// pins match the records, and DEL without an agent removes the pins itself. With tags, and for long answers before
// Linux 6.6, clients in pods need the node's own address.
package cni
