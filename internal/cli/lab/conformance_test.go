package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

func TestConformanceOnSockets(t *testing.T) {
	var out bytes.Buffer
	flags := &ConformanceFlags{Protocol: "netcraq", Plane: "soft", Packets: 1000, Seed: 1, JSON: true}
	if err := RunConformance(t.Context(), &out, io.Discard, flags, conform); err != nil {
		t.Fatal(err)
	}
	var r ConformanceResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Passed == 0 || r.Failed != 0 || r.RandomPackets != 1000 {
		t.Errorf("%+v", r)
	}
}

// TestConformanceShowsCases expects a table, with the skipped cases.
func TestConformanceShowsCases(t *testing.T) {
	var out bytes.Buffer
	if err := RunConformance(t.Context(), &out, io.Discard, &ConformanceFlags{Protocol: "netcraq", Plane: "soft"},
		conform); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nskipped ", "protocol  plane  passed  failed", "netcraq   soft "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestConformanceRefusesUnknownPlanes(t *testing.T) {
	var out bytes.Buffer
	err := RunConformance(t.Context(), &out, io.Discard, &ConformanceFlags{Protocol: ours, Plane: "dpdk"}, conform)
	if cli.ExitStatus(err, true) != cli.ExitUsage || out.Len() != 0 || !strings.Contains(err.Error(), "want soft, xdp or p4") {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestConformanceRefusesNegativeCounts(t *testing.T) {
	var out bytes.Buffer
	err := RunConformance(t.Context(), &out, io.Discard, &ConformanceFlags{Protocol: ours, Plane: "soft", Packets: -5}, conform)
	if cli.ExitStatus(err, true) != cli.ExitUsage || out.Len() != 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestConformanceRefusesAnIdentityWithoutTarget(t *testing.T) {
	flags := ConformanceFlags{Protocol: ours, Plane: cli.PlaneP4, Identity: "certs/node"}
	err := RunConformance(t.Context(), io.Discard, io.Discard, &flags, conform)
	if cli.ExitStatus(err, true) != cli.ExitUsage || !strings.Contains(err.Error(), "it is for --target") {
		t.Error(err)
	}
}
