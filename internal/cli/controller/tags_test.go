package controller

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/security"
)

// TestTagsAreSwitchedUnderLoad (T6): a running cluster gets tags and loses them, and no request stays without its answer. A
// write without a tag is taken before, and refused as soon as the command has returned.
func TestTagsAreSwitchedUnderLoad(t *testing.T) {
	const host = "127.77.11.1"
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{host}, clitest.Formed); err != nil {
		t.Fatal(err)
	}
	of := func(role security.Role) string { return filepath.Join(dir, string(role)) }
	m := clitest.StartManaged(t, host, "--shards", "4", "--identity", of(security.Controller))
	for i := range 3 {
		node := fmt.Sprintf("127.77.11.%d:4411", i+2)
		m.Nodes[node] = m.Run(node, "node", "--name", node, "--addr", node, "--join", m.Controller, "--plane", "soft",
			"--identity", of(security.Node))
	}
	m.Follower = followAs(m, dir, security.Admin)
	m.Await("fully replicated chains", clitest.FullyReplicated(3))
	load := clitest.StartWriters(m, 4)
	for round := range 2 {
		clitest.SwitchTags(m, load, of(security.Admin), fmt.Sprint("forged ", round))
	}
	load.End()
}
