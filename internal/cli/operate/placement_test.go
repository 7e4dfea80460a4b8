package operate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

func TestPlacement(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	text := "t_s,method,op,key,range,lease,succ,vlen\n"
	for _, second := range []string{"1", "2", "3", "4"} {
		text += second + ",KV/Range,get,a,single,,,100\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := clitest.Execute(t.Context(), newPlacementCommand(), "--replay", file, "--json", "--explain", "a")
	var r placementResult
	if err != nil || json.Unmarshal([]byte(out), &r) != nil || r.Reads != 4 || r.HitShare != 0.75 ||
		r.BestFixed != 1 || r.Why == "" {
		t.Errorf("%s %+v %v", out, r, err)
	}
	for _, args := range [][]string{{}, {"--replay", "missing.csv"}, {"--replay", file, "--capacity", "0"}} {
		if _, _, err := clitest.Execute(t.Context(), newPlacementCommand(), args...); err == nil {
			t.Errorf("%v was not refused", args)
		}
	}
}

// TestSourceIsNamed: with the figures of each source if there are two.
func TestSourceIsNamed(t *testing.T) {
	for source, want := range map[string]string{
		"": "none lately", placement.SourceGateway: "gateway", placement.SourceSwitch: "switch",
		placement.SourceBoth: "both: gateway 1.00 reads/s and 2.00 writes/s, switch 3.00 and 4.00",
	} {
		e := placement.Explanation{
			Counted: true, Source: source, Gateway: placement.Figures{ReadRate: 1, WriteRate: 2},
			Switch: placement.Figures{ReadRate: 3, WriteRate: 4},
		}
		var out strings.Builder
		if err := printExplained(&out, []pages.Explained{{Gateway: "g", Explanation: e}}); err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(out.String()) {
			name, is, _ := strings.Cut(line, " ")
			found = found || name == "source" && strings.TrimSpace(is) == want
		}
		if !found {
			t.Errorf("no source %q:\n%s", want, &out)
		}
	}
}
