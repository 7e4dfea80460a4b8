package kv

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestWatchCommand prints the present value, goes on from a version, and shows a deletion, a line for each.
func TestWatchCommand(t *testing.T) {
	file := clitest.StartChain(t)
	watch := func(args ...string) (o watchObject) {
		t.Helper()
		out := clitest.MustRun(t, append([]string{"watch", "--cluster", file, "--count", "1", "--json"}, args...)...)
		if strings.Count(out, "\n") != 1 || json.Unmarshal([]byte(out), &o) != nil {
			t.Fatalf("%q", out)
		}
		return o
	}
	clitest.MustRun(t, "put", "--cluster", file, "k=y", "one")
	first := watch("k=y")
	if first.Deleted || *first.Value != "one" {
		t.Errorf("%+v", first)
	}
	clitest.MustRun(t, "put", "--cluster", file, "k=y", "two")
	if next := watch("k=y", "--after", fmt.Sprintf("k=y=%d", first.Version)); *next.Value != "two" || next.Version <= first.Version {
		t.Errorf("after %d: %+v", first.Version, next)
	}
	clitest.MustRun(t, "delete", "--cluster", file, "k=y")
	if next := watch("other", "k=y", "--after", fmt.Sprintf("k=y=%d", first.Version)); !next.Deleted {
		t.Errorf("%+v", next)
	}
	for _, args := range [][]string{{"k", "--after", "k"}, {"k", "--after", "other=1"}, {"k", "--least", "0s"}, {""}} {
		if out, code, _ := clitest.Netcraq(append([]string{"watch", "--cluster", file}, args...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit status %d, %q", args, code, out)
		}
	}
}
