package bench

import (
	"context"
	"os"
	"testing"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestRestartUnderLoad kills agents of a chain on the XDP plane with SIGKILL and starts them again
// under load. It expects a correct answer to every request, so that the objects have survived.
func TestRestartUnderLoad(t *testing.T) {
	roottest.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(clitest.AsCommand, "1")
	const nodes, kills = 2, 2
	r, err := bench.Restart(context.Background(), bench.RestartOptions{
		Nodes: nodes, Keys: 100, ValueBytes: 40, Rate: 5_000, Kills: kills, Ready: agent.UpMessage,
		Agent: func(o bench.AgentOptions) []string { return append([]string{self}, nodeArguments(o)...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2*nodes*kills {
		t.Errorf("%d agents were killed, not %d", len(r.Rows), 2*nodes*kills)
	}
	for _, row := range r.Rows {
		most := uint64(0)
		if row.Load == "put" { // busy CPUs let the links between nodes overflow; a node that does not come back loses all
			most = uint64(row.Sent) / 2
		}
		if row.Sent == 0 || uint64(row.Lost) > most || row.Wrong != 0 {
			t.Errorf("agent of %s killed under %ss: %d requests, %d lost, %d wrong", row.Node, row.Load,
				row.Sent, row.Lost, row.Wrong)
		}
	}
}
