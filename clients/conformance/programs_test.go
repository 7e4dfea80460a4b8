package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// runProgram runs a test of one language, which prints what is wrong and fails.
func runProgram(t *testing.T, environment []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

func pythonTest(t *testing.T, name string, environment ...string) {
	t.Helper()
	runProgram(t, environment, python(t).Path, "-B", filepath.Join("..", "python", "tests", name))
}

// TestPythonRandomBytes gives the Python client random bytes in the place of what comes from a network.
func TestPythonRandomBytes(t *testing.T) { pythonTest(t, "test_random_bytes.py", "ROUNDS=4000") }

// TestPythonSideBySide runs many operations of the Python client at once.
func TestPythonSideBySide(t *testing.T) {
	path := writeCluster(t, softchain.Start(t, 3, 4, 1000))
	pythonTest(t, "test_side_by_side.py", topology.PathVariable+"="+path)
}
