package papers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// TestConformanceOfThePapersProtocols runs every case and random packets on every plane.
func TestConformanceOfThePapersProtocols(t *testing.T) {
	for _, plane := range []string{"xdp", "p4"} {
		for _, protocol := range []string{"netchain", "netcraq-published"} {
			t.Run(plane+" "+protocol, func(t *testing.T) {
				if plane == "p4" {
					enginetest.Need(t)
				} else {
					roottest.Need(t)
				}
				out, code, err := clitest.Netcraq("conformance", "--protocol", protocol, "--plane", plane, "--random", "1500",
					"--seed", "3", "--json")
				if code != 0 || err != nil {
					t.Fatal(out, code, err)
				}
				var r lab.ConformanceResult
				if err := json.Unmarshal([]byte(out), &r); err != nil {
					t.Fatal(err)
				}
				complete := r.Passed > 0 && r.Failed == 0 && r.Skipped == 0
				if r.Protocol != protocol || r.Plane != plane || !complete || r.RandomPackets != 1500 || r.Seed != 3 {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// TestConformanceNamesCasesThatFail expects a node that never answers to fail, and the report to
// name the case.
func TestConformanceNamesCasesThatFail(t *testing.T) {
	cases, err := netcraqpaper.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	report, err := runBaselineCases[netcraqpaper.State](t.Context(), &mute{}, cases)
	if err != nil || report.Failed == 0 || report.Passed == 0 || len(report.Failures) != report.Failed {
		t.Fatalf("%+v, %v", report, err)
	}
	f := report.Failures[0]
	if f.Case != cases[0].Name || !strings.Contains(f.Packet, "10.88.1.1:50000") ||
		!strings.Contains(f.Why, "sends other packets") {
		t.Errorf("%+v", f)
	}
}

// mute is a node that sends nothing.
type mute struct{ netcraqpaper.Node }

func (m *mute) Step(p baseline.Packet) ([]baseline.Packet, error) {
	_, err := m.Node.Step(p)
	return nil, err
}

func TestConformanceRefuses(t *testing.T) {
	for _, c := range []struct{ protocol, plane, known string }{
		{"paxos", "xdp", "netcraq-published"},
		{"netchain-32", "xdp", "netcraq-published"},
		{"", "xdp", "netcraq-published"},
		{"netchain", "soft", "want xdp or p4"},
		{"netcraq-published", "dpdk", "want xdp or p4"},
	} {
		out, code, err := clitest.Netcraq("conformance", "--protocol", c.protocol, "--plane", c.plane)
		if code != cli.ExitUsage || out != "" || !strings.Contains(err.Error(), c.known) {
			t.Errorf("%q on %s: %q, %d, %v", c.protocol, c.plane, out, code, err)
		}
	}
}
