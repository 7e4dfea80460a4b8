package main

import (
	"encoding/json"
	"testing"
)

// TestCheckInLab: clients compete in a real lab on a bad network; and the check fails once a rule is switched off.
func TestCheckInLab(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		plane, without string
		linearizable   bool
	}{
		{planeXDP, "", true},
		{planeSoft, "", true},
		{planeXDP, "W2", false},
		{planeXDP, "W8", false},
	} {
		args := []string{
			"lab", "check", "--name", "tcheck", "--seconds", "4", "--loss", "2", "--dup", "2", "--seed", "1", "--plane", c.plane, "--json",
		}
		status := 0
		if c.without != "" {
			args, status = append(args, "--without", c.without), exitError
		}
		out, code, err := netcraq(args...)
		var r checkResult
		if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || code != status {
			t.Fatalf("%+v: exit status %d, %v, %v", c, code, jsonErr, err)
		}
		if r.Ops == 0 || r.Linearizable != c.linearizable {
			t.Errorf("%+v: %+v", c, r)
		}
		if c.plane == planeSoft && r.Bundled == 0 {
			t.Errorf("%+v: no answer came in a bundle: %+v", c, r)
		}
		t.Logf("%s without %q: %d operations, linearizable: %v", c.plane, c.without, r.Ops, r.Linearizable)
	}
}
