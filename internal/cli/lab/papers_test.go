package lab_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// The commands for the papers' protocols become netcraq-bench, with the flags that were given.
func TestPapersProtocolsAreAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	commands := []string{"sim", "conformance"}
	for _, command := range commands {
		_, code, err := clitest.Netcraq(command, "--protocol", "netchain")
		if code != cli.ExitError || !strings.Contains(err.Error(), cli.BenchName) {
			t.Errorf("%s without %s: status %d, %v", command, cli.BenchName, code, err)
		}
	}
	program := "#!/bin/sh\necho \"$@\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, cli.BenchName), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		out, code, _ := clitest.Netcraq(command, "--protocol", "netchain", "--json")
		words := strings.Fields(out)
		slices.Sort(words)
		want := []string{"--json=true", "--protocol=netchain", command}
		if code != 7 || !slices.Equal(words, want) {
			t.Errorf("%s: status %d, %q, want %q", command, code, words, want)
		}
	}
	for _, flags := range [][]string{{"--ops", "5"}, {"--without", "W2"}, {"--plane", "xdp"}, {"--gateway"}} {
		out, code, _ := clitest.Netcraq(append([]string{"sim", "--protocol", "netchain"}, flags...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("sim of netchain with %q: status %d, %q", flags, code, out)
		}
	}
}
