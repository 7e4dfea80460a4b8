package controller

import (
	"log/slog"
	"testing"

	"github.com/netcraq/netcraq/internal/node/agent"
)

// TestAgentsAreReleased: the leader releases an agent that ends and whose plane goes on.
func TestAgentsAreReleased(t *testing.T) {
	c := newCluster(t, 3, slack())
	c.remember = func([]byte) error { return nil }
	said := &book{}
	c.startNodes("n1", "n2")
	c.log = slog.New(slog.NewTextHandler(said, nil))
	c.startNode("n3")
	c.fullyReplicated(3)
	c.nodes["n3"].agent.end()
	if !said.says(agent.ReleasedMessage) {
		t.Error("the agent was not released")
	}
}
