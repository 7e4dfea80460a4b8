package seeded

import (
	"testing"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

func TestParseRule(t *testing.T) {
	for i, name := range core.RuleNames() {
		if r, err := ParseRule[core.Rule](core.RuleNames(), name); err != nil || r != 1<<i {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := ParseRule[core.Rule](core.RuleNames(), "W2"); err == nil {
		t.Error("W2 is no rule of the gateway")
	}
}
