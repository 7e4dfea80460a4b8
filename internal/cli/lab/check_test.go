package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

// simulated runs `netcraq lab check --simulate` and parses its output. The run ends at the first violation.
func simulated(t *testing.T, seed uint64, seconds int, without string) (checkResult, error) {
	t.Helper()
	var out bytes.Buffer
	flags := checkFlags{seconds: seconds, loss: 5, duplicate: 5, seed: seed, without: without, simulate: true, json: true}
	runErr := runCheck(t.Context(), &out, io.Discard, &flags)
	var r checkResult
	decoder := json.NewDecoder(&out)
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("%v (%v)", err, runErr)
	}
	if decoder.More() {
		t.Error("more than one object was printed")
	}
	return r, runErr
}

func TestCheckSimulation(t *testing.T) {
	r, err := simulated(t, 1, 1, "")
	if err != nil || !r.Linearizable || r.Ops == 0 || r.Seed != 1 || r.How != "simulation" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCheckNoticesMissingRules expects an error (exit status 1) with the seed, and the same result
// from that seed.
func TestCheckNoticesMissingRules(t *testing.T) {
	for _, rule := range []string{"W2", "W5", "W8"} {
		first, err := simulated(t, 1, 60, rule)
		if err == nil || first.Linearizable {
			t.Errorf("without %s: %+v, %v", rule, first, err)
		}
		again, err := simulated(t, first.Seed, 60, rule)
		if err == nil || again.Seed != first.Seed {
			t.Errorf("without %s, from seed %d: %+v, %v", rule, first.Seed, again, err)
		}
	}
}

func TestCheckRefusesUnknownRules(t *testing.T) {
	var out bytes.Buffer
	err := runCheck(t.Context(), &out, io.Discard, &checkFlags{seconds: 1, without: "W3", json: true})
	if cli.ExitStatus(err, true) != cli.ExitUsage || out.Len() != 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestCheckRefusesImpossibleShares expects a usage error before a lab is brought up.
func TestCheckRefusesImpossibleShares(t *testing.T) {
	for _, flags := range []checkFlags{{loss: 101}, {duplicate: -1}, {corrupt: 100.5}} {
		var progress bytes.Buffer
		flags.seconds, flags.name, flags.plane = 1, "tshares", cli.PlaneSoft
		err := runCheck(t.Context(), io.Discard, &progress, &flags)
		if cli.ExitStatus(err, true) != cli.ExitUsage || progress.Len() != 0 {
			t.Errorf("%+v: %v, %q", flags, err, progress.String())
		}
	}
}
