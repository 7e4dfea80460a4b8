// Package roottest is for tests that only root can run.
package roottest

import (
	"os"
	"testing"
)

// Need skips a test if it does not run as root. In CI, which is root, the test fails.
func Need(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root, which CI has")
	}
	t.Skip("needs root")
}
