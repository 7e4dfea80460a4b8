package conformance

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// notOfOneNode are rules that speak of clients or of the control plane, so that no vector can show them.
var notOfOneNode = map[string]string{
	"R6": "no messages: compareNearby of the random packets", "W10": "clients: package client", "W12": "internal/node/agent",
	"C1": "internal/verify/sim", "C2": "internal/verify/sim", "C3": "a controller's work", "C4": "the agent",
	"C5": "a controller's work",
	"C6": "internal/verify/sim", "C7": "internal/verify/sim", "C8": "internal/verify/sim",
	"C9": "internal/cluster/reconfig", "C10": "internal/node/agent", "C11": "internal/cluster/reconfig",
	"G2": "internal/cluster/reconfig", "G4": "internal/verify/planetest", "G5": "internal/verify/sim",
	"G6": "internal/cluster/reconfig", "G7": "internal/cluster/reconfig",
	"T1": "package wire", "T2": "package wire", "T3": "internal/cluster/controller", "T4": "internal/verify/harness",
	"T5": "package wire", "T6": "internal/cluster/reconfig",
}

// TestEveryRuleHasAVector: the rules of spec/protocol.md and the names of the cases speak of the same things.
func TestEveryRuleHasAVector(t *testing.T) {
	text, err := os.ReadFile("../../../spec/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([ABGHRWCT]\d+)†?\*\*`).FindAllStringSubmatch(string(text), -1) {
		rules[m[1]] = false
	}
	cases, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		rule, _, _ := strings.Cut(c.Name, "-")
		if _, known := rules[rule]; !known && rule != "limit" {
			t.Errorf("%s begins with no rule of the protocol", c.Name)
		}
		rules[rule] = true
	}
	for rule, shown := range rules {
		if !shown && notOfOneNode[rule] == "" {
			t.Errorf("no vector shows %s", rule)
		}
	}
	if len(rules) < 30 {
		t.Errorf("only %d rules were found in the document", len(rules))
	}
}

// TestEveryStatusAndOutcomeHasAVector: every status of replies and every outcome that nodes count occurs in the expected
// results.
func TestEveryStatusAndOutcomeHasAVector(t *testing.T) {
	cases, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	var results strings.Builder
	for _, c := range cases {
		for _, step := range c.Steps {
			results.WriteString(strings.Join(step.Want, "\n") + "\n")
		}
	}
	for _, want := range expressible() {
		if !strings.Contains(results.String(), want) {
			t.Errorf("no vector has %q", want)
		}
	}
}

// expressible lists the statuses and outcomes that vectors can show: all but DENIED, which is reserved, those that need
// several CPUs or missing routes, and those that planes handle before any rule (T1 to T4).
func expressible() (texts []string) {
	for _, s := range wire.Statuss {
		if s != wire.StatusDenied {
			texts = append(texts, "reply status="+s.String())
		}
	}
	for _, o := range wire.Outcomes {
		if chains(o) {
			texts = append(texts, " "+o.String())
		}
	}
	return texts
}

// chains reports whether the rules of a chain alone can bring an outcome about.
func chains(o wire.Outcome) bool {
	switch o {
	case wire.OutcomeContended, wire.OutcomeUnroutable, wire.OutcomeBadTag, wire.OutcomeLimited:
		return false
	}
	return true
}
