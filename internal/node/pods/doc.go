// Package pods is what the CNI plugin and a node's agent share: a directory with a record for each pod's interface, and
// the agent's socket in it.
//
// The directory is the wanted state. The plugin writes a record and tells the agent to look, and the agent attaches the
// data plane to the interface. An agent that is away looks when it starts, so neither needs the other to run. Neither
// the data plane nor gRPC is imported here: the plugin is a small program.
package pods
