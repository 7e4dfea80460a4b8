package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

func TestConformanceOnSockets(t *testing.T) {
	var out bytes.Buffer
	flags := &conformanceFlags{protocol: "netcraq", plane: "soft", packets: 1000, seed: 1, json: true}
	if err := runConformance(t.Context(), &out, io.Discard, flags); err != nil {
		t.Fatal(err)
	}
	var r conformanceResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Passed == 0 || r.Failed != 0 || r.RandomPackets != 1000 {
		t.Errorf("%+v", r)
	}
}

// TestConformanceOfThePapersProtocols runs every case and random packets on every plane.
func TestConformanceOfThePapersProtocols(t *testing.T) {
	for _, plane := range []string{"soft", "xdp", "p4"} {
		for _, protocol := range []string{"netchain", "netcraq-published"} {
			t.Run(plane+" "+protocol, func(t *testing.T) {
				switch plane {
				case "xdp":
					roottest.Need(t)
				case "p4":
					enginetest.Need(t)
				}
				out, code, err := clitest.Netcraq("conformance", "--protocol", protocol, "--plane", plane, "--random", "1500",
					"--seed", "3", "--json")
				if code != 0 || err != nil {
					t.Fatal(out, code, err)
				}
				var r conformanceResult
				if err := json.Unmarshal([]byte(out), &r); err != nil {
					t.Fatal(err)
				}
				complete := r.Passed > 0 && r.Failed == 0 && (plane == "soft" || r.Skipped == 0)
				if r.Protocol != protocol || r.Plane != plane || !complete || r.RandomPackets != 1500 || r.Seed != 3 {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// TestConformanceShowsCases expects the same table for every protocol, with the skipped cases.
func TestConformanceShowsCases(t *testing.T) {
	var out bytes.Buffer
	if err := runConformance(t.Context(), &out, io.Discard,
		&conformanceFlags{protocol: "netchain", plane: "soft"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"skipped what is not for the node goes on as it is",
		"protocol  plane  passed  failed", "netchain  soft "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
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

func TestConformanceRefusesUnknownProtocols(t *testing.T) {
	for _, protocol := range []string{"paxos", "netchain-32", ""} {
		out, code, err := clitest.Netcraq("conformance", "--protocol", protocol)
		if code != cli.ExitUsage || out != "" || !strings.Contains(err.Error(), "netcraq-published") {
			t.Errorf("%q: %q, %d, %v", protocol, out, code, err)
		}
	}
}

func TestConformanceRefusesUnknownPlanes(t *testing.T) {
	var out bytes.Buffer
	for _, c := range []struct{ protocol, plane, known string }{
		{"netcraq", "dpdk", "want soft, xdp or p4"},
		{"netchain", "dpdk", "want soft, xdp or p4"},
		{"netcraq-published", "dpdk", "want soft, xdp or p4"},
	} {
		err := runConformance(t.Context(), &out, io.Discard, &conformanceFlags{protocol: c.protocol, plane: c.plane})
		if cli.ExitStatus(err, true) != cli.ExitUsage || out.Len() != 0 || !strings.Contains(err.Error(), c.known) {
			t.Errorf("%s: %v, %q", c.protocol, err, out.String())
		}
	}
}

func TestConformanceRefusesNegativeCounts(t *testing.T) {
	var out bytes.Buffer
	err := runConformance(t.Context(), &out, io.Discard,
		&conformanceFlags{protocol: "netcraq", plane: "soft", packets: -5})
	if cli.ExitStatus(err, true) != cli.ExitUsage || out.Len() != 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
