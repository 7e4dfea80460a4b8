package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
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

// sanitized are the options by which the C client is compiled for tests: warnings and undefined behaviour are errors.
var sanitized = []string{"-std=c11", "-g", "-O0", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
	"-fno-sanitize-recover=all"}

// compileC compiles the C client and one of its test programs, if no earlier test did, and returns the program's path.
func compileC(t *testing.T, name string) string {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		missing(t, "gcc is needed: `scripts/setup.sh test` installs it")
	}
	program, c := filepath.Join(programs, name), filepath.Join("..", "c")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	args := append(slices.Clone(sanitized), "-o", program, filepath.Join(c, "tests", name+".c"))
	if name == "driver" {
		if _, err := os.Stat("/usr/include/openssl/ssl.h"); err != nil {
			missing(t, "OpenSSL's headers are needed: `scripts/setup.sh test` installs them")
		}
		args = append(args, "-DWITH_OPENSSL", filepath.Join(c, "netcraq.c"), filepath.Join(c, "netcraq_openssl.c"), "-lssl",
			"-lcrypto")
	}
	runProgram(t, nil, compiler, args...)
	return program
}

// TestCRandomBytes gives the C client random bytes in the place of what comes from a network, under the sanitizers.
func TestCRandomBytes(t *testing.T) {
	runProgram(t, nil, compileC(t, "random_bytes"), "5000", strconv.FormatUint(seedtest.Seed(t), 10))
}

// TestPythonRandomBytes gives the Python client random bytes in the place of what comes from a network.
func TestPythonRandomBytes(t *testing.T) { pythonTest(t, "test_random_bytes.py", "ROUNDS=4000") }

// TestPythonMisuse gives the Python client numbers, keys and files that it cannot use.
func TestPythonMisuse(t *testing.T) {
	path := clitest.WriteCluster(t, softchain.Start(t, 3, 4, 1000))
	pythonTest(t, "test_misuse.py", topology.PathVariable+"="+path)
}

// TestPythonSideBySide runs many operations of the Python client at once.
func TestPythonSideBySide(t *testing.T) {
	path := clitest.WriteCluster(t, softchain.Start(t, 3, 4, 1000))
	pythonTest(t, "test_side_by_side.py", topology.PathVariable+"="+path)
}

// TestCMisuse opens clients with cluster files that cannot be used.
func TestCMisuse(t *testing.T) { runProgram(t, nil, compileC(t, "misuse")) }

// TestCFork forks a process with a client in C.
func TestCFork(t *testing.T) {
	runProgram(t, nil, compileC(t, "fork"), clitest.WriteCluster(t, softchain.Start(t, 3, 4, 1000)))
}
