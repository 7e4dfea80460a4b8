package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestMakingNamespacesLeavesTheProcessWhereItIs expects that the process does not appear to move
// into a namespace that it made: down would then spare the processes in it.
func TestMakingNamespacesLeavesTheProcessWhereItIs(t *testing.T) {
	roottest.Need(t)
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		path := filepath.Join(nsDir, nsName(fmt.Sprintf("m%d", os.Getpid()%1_000_000), fmt.Sprint(i)))
		if err := makeNamespace(path); err != nil {
			t.Fatal(err)
		}
		if err := removeNamespace(path); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
			t.Fatalf("after %d namespaces the process is in %s, was in %s: %v", i+1, after, before, err)
		}
	}
}
