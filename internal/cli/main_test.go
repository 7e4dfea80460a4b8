package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An unknown command is an error of usage at every level.
func TestUnknownCommands(t *testing.T) {
	for line, want := range map[string]int{
		"klingon": ExitUsage, "group klingon": ExitUsage, "completion klingon": ExitUsage, "help klingon": ExitUsage,
		"group": 0, "group member": 0, "completion": 0, "completion bash": 0, "help": 0, "help group": 0,
	} {
		group := &cobra.Command{Use: "group"}
		group.AddCommand(&cobra.Command{Use: "member", Run: func(*cobra.Command, []string) {}})
		root, started := newRoot("a test", []*cobra.Command{group})
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(strings.Fields(line))
		status := 0
		if err := root.Execute(); err != nil {
			status = ExitStatus(err, *started)
		}
		if status != want {
			t.Errorf("netcraq %s: status %d, not %d", line, status, want)
		}
	}
}

// TestInterruptionsAreNamed: the error of an interrupted command is "interrupted".
func TestInterruptionsAreNamed(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	other := fmt.Errorf("shard 3: %w", context.Canceled)
	for _, c := range []struct {
		ctx       context.Context
		err, want error
	}{
		{ended, context.Canceled, errInterrupted},
		{ended, errors.New("context canceled while waiting for connections to become ready"), errInterrupted}, // gRPC's
		{ended, other, other},
		{t.Context(), context.Canceled, context.Canceled},
		{ended, nil, nil},
	} {
		if got := named(c.ctx, c.err); !errors.Is(got, c.want) {
			t.Errorf("%v is named %v, want %v", c.err, got, c.want)
		}
	}
}
