package local

import (
	"os"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/member/program"
)

// TestMain has the test's program run as `netcraq etcd` if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "etcd" {
		program.Main(os.Args[1:])
	}
	os.Exit(m.Run())
}

// TestStartFails: what etcd says is in the error, and nothing is left.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, c := range []struct{ program, says string }{
		{os.Args[0], "there is no cluster file /nonexistent"},
		{"/nonexistent/netcraq", "/nonexistent/netcraq"},
	} {
		m, err := Start(t.Context(), Options{Program: c.program, Listen: "127.0.0.1:0", Chain: "/nonexistent"})
		if err == nil {
			_ = m.stop() // the test has failed
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.program, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
