// Package agent runs on a node, beside its data plane. It configures the plane, from a cluster file or by the gRPC API of
// api/agent.proto. It also resyncs objects that a lost message left dirty (W9), and removes sessions whose clients are gone.
//
// The data plane answers without the agent: an agent may stop and restart at any time.
package agent
