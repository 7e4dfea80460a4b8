package lab

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/wire"
)

// TestMessagesGrow expects that messages may grow although a packet from a socket has little
// tailroom on veth: answers and FORWARDs may be longer than the packets that cause them.
func TestMessagesGrow(t *testing.T) {
	name := clitest.LabName(t, "g")
	clitest.MustRun(t, "lab", "--name", name, "up", "--topology", lab.Line, "--nodes", "3", "--clients", "1")
	client := func(args ...string) []string {
		return append([]string{"lab", "--name", name, "exec", "c1", "--", "netcraq"}, args...)
	}
	for _, n := range []int{0, 16, 32, 64, 128, 200, 256, 512, 1024, wire.MaxValueBytes} {
		value := strings.Repeat("x", n)
		clitest.MustRun(t, client("put", "grow", value)...)
		for _, node := range []string{"n1", "n2", "n3"} {
			if got := clitest.MustRun(t, client("get", "grow", "--node", node, "--raw")...); got != value {
				t.Errorf("%d bytes were written, %s answers %d", n, node, len(got))
			}
		}
	}
	// A client on the node's own machine reaches the agent's socket, which runs the same program.
	got := clitest.MustRun(t, "lab", "--name", name, "exec", "n2", "--", "netcraq", "get", "grow", "--node", "n2", "--raw")
	if len(got) != wire.MaxValueBytes {
		t.Errorf("to its own machine n2 answers %d bytes", len(got))
	}
	clitest.MustRun(t, "lab", "--name", name, "fault", "agent-kill", "n2") // the kernel answers without the agent
	if got := clitest.MustRun(t, client("get", "grow", "--node", "n2", "--raw")...); len(got) != wire.MaxValueBytes {
		t.Errorf("without its agent n2 answers %d bytes", len(got))
	}
	clitest.MustRun(t, "lab", "--name", name, "fault", "agent-start", "n2")
	clitest.MustRun(t, "lab", "--name", name, "fault", "partition", "n3|n1,n2,c1")
	if _, code, err := clitest.Netcraq(client("put", "grow", "dirty", "--timeout",
		"100ms")...); code != cli.ExitOutcomeUnknown {
		t.Errorf("exit status %d of a write that cannot reach the tail: %v", code, err)
	}
	clitest.MustRun(t, "lab", "--name", name, "fault", "clear")
	clitest.MustRun(t, client("get", "grow", "--node", "n1")...)
	expectDirtyRead(t, name, client)
	if counts := clitest.MustRun(t, client("inspect")...); strings.Contains(counts, "unroutable") {
		t.Errorf("messages were dropped for want of room:\n%s", counts)
	}
}

// expectDirtyRead reads an object that stays dirty; there are no agents that would settle it. The
// read must reach the tail at the first attempt.
func expectDirtyRead(t *testing.T, name string, client func(...string) []string) {
	t.Helper()
	clitest.MustRun(t, client("put", "grow", "clean")...)
	clitest.MustRun(t, "lab", "--name", name, "fault", "agent-kill", "n1")
	clitest.MustRun(t, "lab", "--name", name, "fault", "agent-kill", "n2")
	clitest.MustRun(t, "lab", "--name", name, "fault", "partition", "n3|n1,n2,c1")
	if _, code, err := clitest.Netcraq(client("put", "grow", "dirty", "--timeout",
		"100ms")...); code != cli.ExitOutcomeUnknown {
		t.Errorf("exit status %d of a write that cannot reach the tail: %v", code, err)
	}
	clitest.MustRun(t, "lab", "--name", name, "fault", "clear")
	for _, node := range []string{"n1", "n2"} {
		var got struct {
			Value    string
			From     string
			Attempts int
		}
		if err := json.Unmarshal([]byte(clitest.MustRun(t, client("get", "grow", "--node", node, "--json")...)),
			&got); err != nil {
			t.Fatal(err)
		}
		if got.Value != "clean" || got.Attempts != 1 || got.From != "committed copy" {
			t.Errorf("a read of a dirty object at %s: %+v, want the tail's answer at the first attempt", node, got)
		}
	}
	clitest.MustRun(t, "lab", "--name", name, "fault", "agent-start", "n1")
	clitest.MustRun(t, "lab", "--name", name, "fault", "agent-start", "n2")
}
