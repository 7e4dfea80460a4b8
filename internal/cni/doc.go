// Package cni is the plugin netcraq-cni, by version 1.1 of the CNI specification. It comes after a plugin that joins a
// pod to the machine by a veth pair, such as bridge or ptp, and gives the pod a route to the chain: the frames that the
// pod sends to one address, the same on every machine, meet the node's program at the host's end of the pair.
//
// The plugin prepares the pod's end and leaves a record for the agent: see package pods. It needs no agent to succeed.
package cni
