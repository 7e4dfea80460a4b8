// Package clitest helps tests of commands: it runs commands in processes of their own, labs and clusters.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// AsCommand makes the test binary the real command: labs start it as their nodes' agents.
const AsCommand = "NETCRAQ_TEST_AS_COMMAND"

// Netcraq runs the command in a process of its own.
func Netcraq(args ...string) (stdout string, code int, err error) {
	var out, log bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), AsCommand+"=1")
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	if err != nil {
		err = fmt.Errorf("netcraq %s: %w\n%s", strings.Join(args, " "), err, &log)
	}
	return out.String(), cmd.ProcessState.ExitCode(), err
}

func MustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := Netcraq(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// LabName returns the name of a lab that only this process uses. The end of the test removes the lab.
func LabName(t *testing.T, prefix string) string {
	t.Helper()
	roottest.Need(t)
	name := fmt.Sprintf("%s%d", prefix, os.Getpid()%1_000_000)
	t.Cleanup(func() {
		if _, err := lab.Down(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// Execute runs a command in this process, as main does.
func Execute(ctx context.Context, c *cobra.Command, args ...string) (stdout, stderr string, err error) {
	var out, log bytes.Buffer
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetOut(&out)
	c.SetErr(&log)
	c.SetArgs(args)
	err = c.ExecuteContext(ctx)
	return out.String(), log.String(), err
}
