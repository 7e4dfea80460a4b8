// Package agentv1 is the gRPC interface of a node's agent, generated from api/agent.proto by `make proto`.
package agentv1
