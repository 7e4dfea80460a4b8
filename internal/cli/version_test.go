package cli

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/build"
)

func TestVersion(t *testing.T) {
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
	for _, want := range []string{"netcraq ", build.Name(), runtime.Version(), runtime.GOARCH} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
	if got := run("--version"); got != line {
		t.Errorf("--version prints %q, version %q", got, line)
	}
	var b build.Info
	if err := json.Unmarshal([]byte(run("version", "--json")), &b); err != nil || b != build.Read() {
		t.Errorf("%+v, %v", b, err)
	}
}
