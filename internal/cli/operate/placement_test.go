package operate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
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
