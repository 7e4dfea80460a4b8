package core

import (
	"os"
	"strings"
	"testing"
)

// The documentation of the package says of each rule what happens without it.
func TestRulesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range RuleNames() {
		_, rule, found := strings.Cut(string(doc), "//   - "+name+": ")
		if rule, _, _ = strings.Cut(rule, "//   - "); !found || !strings.Contains(rule, "Else:") {
			t.Errorf("doc.go does not say what happens without the rule %s", name)
		}
	}
}
