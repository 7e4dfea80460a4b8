package cli

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	revision = "0123abc"
	t.Cleanup(func() { revision = "" })
	run := func(args ...string) string {
		t.Helper()
		root, _ := newRoot("short", nil)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	line := run("version")
	for _, want := range []string{"netcraq ", "0123abc", runtime.Version(), runtime.GOARCH} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
	if got := run("--version"); got != line {
		t.Errorf("--version prints %q, version %q", got, line)
	}
	var b Build
	if err := json.Unmarshal([]byte(run("version", "--json")), &b); err != nil || b != ReadBuild() {
		t.Errorf("%+v, %v", b, err)
	}
}
