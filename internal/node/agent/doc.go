// Package agent runs on a node, beside its data plane. It configures the plane, from a cluster file or by the gRPC API
// of api/agent.proto, and looks after what packets alone do not settle: objects that a lost message left dirty (W9) and
// sessions whose clients are gone.
//
// The data plane answers without the agent: an agent may die and come back at any time.
package agent
