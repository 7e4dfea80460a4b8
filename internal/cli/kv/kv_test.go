package kv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// command runs the command line of one of the commands on keys. It waits for answers as long as a busy machine needs.
func command(stdin string, args ...string) (string, error) {
	args = slices.Insert(args, 1, "--timeout", clitest.Formed.String())
	root := &cobra.Command{Use: "netcraq", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestKVCommands(t *testing.T) {
	t.Setenv(topology.PathVariable, clitest.StartChain(t))
	for _, step := range []struct {
		line   string
		stdin  string
		want   string
		status int
	}{
		{line: "get greeting", status: cli.ExitNotFound},
		{line: "put greeting hello", want: "stored greeting, version 1\n"},
		{line: "get greeting", want: "hello\n"},
		{line: "get greeting --raw", want: "hello"},
		{line: "get greeting --any --node n2", want: "hello\n"},
		{line: "get greeting --bounded 5ms", want: "hello\n"},
		{line: "cas greeting --expect 1 bye", want: "stored greeting, version 2\n"},
		{line: "cas greeting --expect 1 bye", status: cli.ExitCASFailed},
		{line: "put greeting -", stdin: "a\x00b", want: "stored greeting, version 3\n"},
		{line: "get greeting", want: `"a\x00b"` + "\n"},
		{line: "put greeting -", stdin: "\xff\x00", want: "stored greeting, version 4\n"},
		{line: "get greeting", want: "0xff00\n"},
		{line: "get greeting --raw", want: "\xff\x00"},
		{line: "delete greeting", want: "deleted greeting, version 5\n"},
		{line: "add counter 5", want: "5\n"},
		{line: "add counter -7 --timeout 2s", want: "-2\n"},
		{line: "get counter", want: "0xfffffffffffffffe (counter -2)\n"},
		{line: "add counter x", status: cli.ExitUsage},
		{line: "add counter", status: cli.ExitUsage},
		{line: "put greeting word", want: "stored greeting, version 6\n"},
		{line: "add greeting 1", status: cli.ExitError},
		{line: "cas greeting bye", status: cli.ExitUsage},
		{line: "cas greeting --expect two bye", status: cli.ExitUsage},
		{line: "cas greeting --expect -1 bye", status: cli.ExitUsage},
		{line: "get greeting --any --bounded 1s", status: cli.ExitUsage},
		{line: "get greeting --bounded 2m", status: cli.ExitError},
		{line: "get greeting --raw --json", status: cli.ExitUsage},
		{line: "get greeting --timeout -1s", status: cli.ExitUsage},
		{line: "get greeting --node n9", status: cli.ExitError},
		{line: "get greeting --cluster /nowhere/cluster.yaml", status: cli.ExitError},
		{line: "get " + strings.Repeat("k", 1025), status: cli.ExitError},
		{line: "put greeting " + strings.Repeat("v", 257), status: cli.ExitError},
		{line: "put greeting " + strings.Repeat("v", 1353), status: cli.ExitError},
		{line: "put greeting -", stdin: strings.Repeat("v", 1353), status: cli.ExitError},
	} {
		got, err := command(step.stdin, strings.Fields(step.line)...)
		status := 0
		if err != nil {
			status = cli.ExitStatus(err, true)
		}
		if got != step.want || status != step.status {
			t.Errorf("%.60s: %q, status %d (%v); want %q, status %d", step.line, got, status, err, step.want, step.status)
		}
	}
}

func TestKVJSON(t *testing.T) {
	t.Setenv(topology.PathVariable, clitest.StartChain(t))
	for _, step := range []struct {
		line   string
		status string
		value  string
	}{
		{"get k --json", "not_found", ""},
		{"put k v --json --trace", "ok", ""},
		{"get k --json", "ok", "v"},
		{"cas k --expect 7 w --json", "cas_failed", "v"},
		{"delete k --json", "ok", ""},
		{"add k 3 --json", "ok", "\x00\x00\x00\x00\x00\x00\x00\x03"},
		{"get k --json --node nobody", "error", ""},
	} {
		out, err := command("", strings.Fields(step.line)...)
		var o kvObject
		decoder := json.NewDecoder(strings.NewReader(out))
		if decodeErr := decoder.Decode(&o); decodeErr != nil || decoder.More() {
			t.Fatalf("%s: not one JSON object: %q (%v)", step.line, out, decodeErr)
		}
		value := ""
		if o.Value != nil {
			value = *o.Value
		}
		if o.Status != step.status || value != step.value || (err == nil) != (step.status == "ok") {
			t.Errorf("%s: %+v, %v", step.line, o, err)
		}
	}
}

func TestNoClusterFile(t *testing.T) {
	t.Setenv(topology.PathVariable, filepath.Join(t.TempDir(), "none.yaml"))
	_, err := command("", "get", "k")
	if err == nil || !strings.Contains(err.Error(), "netcraq up") {
		t.Fatalf("%v", err)
	}
	var status *cli.StatusError
	if errors.As(err, &status) {
		t.Fatalf("%v has a status of its own", err)
	}
}

// TestTrace compares whole drawings, with their blanks: users read them.
func TestTrace(t *testing.T) {
	where := client.Location{Shard: 3, Epoch: 1, Chain: []string{"n1", "n2", "n3"}}
	result := client.Result{Asked: "n2", Node: "n2", Shard: 3, Epoch: 1, Hops: 2, Version: 7, Attempts: 1,
		Elapsed: 23400 * time.Nanosecond}
	forwarded, write, relayed := result, result, result
	forwarded.Node, forwarded.Hops = "n3", 3
	write.Asked, write.Node = "n1", "n3"
	relayed.Asked, relayed.Node = "n1", "n1"
	failed := &client.CASFailedError{}
	for _, test := range []struct {
		name string
		op   wire.Op
		r    client.Result
		err  error
		want string
	}{
		{"clean", wire.OpRead, result, nil, `
  client ──▶ n2         ──▶ client
             replica
             clean copy`},
		{"deleted", wire.OpRead, result, client.ErrNotFound, `
  client ──▶ n2      ──▶ client
             replica
             deleted`},
		{"forwarded", wire.OpRead, forwarded, nil, `
  client ──▶ n2                        ──▶ n3             ──▶ client
             replica                       tail
             dirty, or without a lease     committed copy`},
		{"write", wire.OpPut, write, nil, `
  client ──▶ n1      ──▶ n2      ──▶ n3        ──▶ client
             head        replica     tail
             ordered     applied     committed`},
		{"relayed", wire.OpPut, relayed, nil, `
  client ──▶ n1      ──▶ n2      ──▶ n3        ──▶ n2           ──▶ n1           ──▶ client
             head        replica     tail          replica          head
             ordered     applied     committed     acknowledged     acknowledged`},
		{"refused", wire.OpCAS, relayed, failed, `
  client ──▶ n1      ──▶ client
             head
             refused`},
	} {
		got := drawTrace(test.op, test.r, where, test.err, false)
		want := test.want[1:] + fmt.Sprintf(
			"\n\n  %d hops, 23.4 µs, 1 attempt\n  version 7, shard 3, epoch 1, chain n1 > n2 > n3\n", test.r.Hops)
		if got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", test.name, got, want)
		}
	}
}
