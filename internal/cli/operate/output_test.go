package operate_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// With --json a command prints exactly one object, also when it fails.
func TestErrorsAreObjects(t *testing.T) {
	t.Setenv("NETCRAQ_CONTROLLERS", "")
	t.Setenv("NETCRAQ_CLUSTER", "/nowhere/cluster.yaml")
	for _, line := range []string{
		"get k", "put k v", "status", "settings", "top", "inspect", "plan drain n1", "plan add", "drain n1", "backup b",
		"restore b", "status --timeout 0s",
		"lab status",
	} {
		args := append(strings.Fields(line), "--json")
		if args[0] == "lab" {
			args = append(args, "--name", "nowhere")
		}
		said, status, err := clitest.Netcraq(args...)
		var object struct {
			Error string `json:"error"`
			Exit  int    `json:"exit_status"`
		}
		decoder := json.NewDecoder(strings.NewReader(said))
		if failed := decoder.Decode(&object); failed != nil || object.Error == "" || object.Exit != status || status == 0 {
			t.Errorf("%s: status %d (%v): %v: %q", line, status, err, failed, said)
		}
		if decoder.More() {
			t.Errorf("%s prints more than one object: %q", line, said)
		}
	}
	if said, status, _ := clitest.Netcraq("status"); said != "" || status != cli.ExitError {
		t.Errorf("without --json: status %d, %q", status, said)
	}
}

// Shells complete names of nodes and planes.
func TestCompletion(t *testing.T) {
	file := t.TempDir() + "/cluster.yaml"
	text := "epoch: 1\nshards: 1\nnodes:\n  - {name: n1, addr: 127.3.9.1:4411}\n  - {name: n2, addr: 127.3.9.2:4411}\nchains:\n  - [n1, n2]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want []string
	}{
		{"get k --cluster " + file + " --node ", []string{"n1", "n2"}},
		{"inspect --cluster " + file + " ", []string{"n1", "n2"}},
		{"inspect --cluster " + file + " n1 ", []string{"n2"}},
		{"drain --cluster " + file + " ", []string{"n1", "n2"}},
		{"move --cluster " + file + " --from ", []string{"n1", "n2"}},
		{"get k --cluster /nowhere --node ", nil},
		{"node --plane ", []string{"auto", "p4", "soft", "xdp"}},
		{"lab up --plane ", []string{"none", "p4", "soft", "xdp"}},
	} {
		said, _, err := clitest.Netcraq(append([]string{"__completeNoDesc"}, strings.Split(c.line, " ")...)...)
		var got []string
		for line := range strings.Lines(said) {
			if !strings.HasPrefix(line, ":") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v (%v)", c.line, got, c.want, err)
		}
	}
}
