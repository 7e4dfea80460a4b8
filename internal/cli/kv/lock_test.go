package kv

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// lockCommand runs `netcraq lock`.
func lockCommand(ctx context.Context, args ...string) (string, string, error) {
	root := &cobra.Command{Use: "netcraq", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newLockCommand())
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(append([]string{"lock"}, args...))
	err := root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// chainClient starts a chain that commands find through the environment, and returns a client of it.
func chainClient(t *testing.T) *client.Client {
	t.Helper()
	path := clitest.StartChain(t)
	t.Setenv(topology.PathVariable, path)
	cluster, err := client.LoadCluster(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster, Timeout: clitest.Formed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestLockCommand(t *testing.T) {
	c := chainClient(t)
	tokens := []uint64{0}
	for range 3 {
		out, _, err := lockCommand(t.Context(), "l", "--", "sh", "-c", "echo $NETCRAQ_FENCING_TOKEN $NETCRAQ_LOCK")
		fields := strings.Fields(out)
		if err != nil || len(fields) != 2 || fields[1] != "l" {
			t.Fatalf("%q, %v", out, err)
		}
		token, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || token <= tokens[len(tokens)-1] {
			t.Fatalf("token %d after %v: %v", token, tokens, err)
		}
		tokens = append(tokens, token)
	}
	held, err := c.Lock(t.Context(), "taken", client.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock(context.Background())
	for line, want := range map[string]int{
		"l -- true":                        0,
		"l -- sh -c 'exit 42'":             42,
		"l -- sh -c 'kill -9 $$'":          128 + 9,
		"l -- /nowhere/command":            cli.ExitError,
		"taken --try -- true":              cli.ExitLocked,
		"taken --wait 50ms -- true":        cli.ExitLocked,
		"l true":                           cli.ExitUsage,
		"l --":                             cli.ExitUsage,
		"-- true":                          cli.ExitUsage,
		"l --try --wait 1s -- true":        cli.ExitUsage,
		"l --wait -1s -- true":             cli.ExitUsage,
		"l --ttl 1ms -- true":              cli.ExitUsage,
		"l --controllers :1 -- true":       cli.ExitUsage,
		"l --cluster /nowhere/c -- true":   cli.ExitError,
		"l --ttl 200ms --wait 2s -- false": 1,
	} {
		if _, errs, err := lockCommand(t.Context(), splitLine(line)...); statusAfter(err) != want {
			t.Errorf("%s: status %d, want %d: %v %s", line, statusAfter(err), want, err, errs)
		}
	}
}

// TestLockCommandRenews: the lock is renewed for as long as the command runs.
func TestLockCommandRenews(t *testing.T) {
	c := chainClient(t)
	renewed := filepath.Join(t.TempDir(), "renewed")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends the command once the record has been written again
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for first := uint64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			found, err := c.Get(ctx, "lock:l")
			switch {
			case err != nil:
			case first == 0:
				first = found.Version
			case found.Version > first:
				_ = os.WriteFile(renewed, nil, 0o600)
				return
			}
		}
	}()
	wait := "until [ -e " + renewed + " ]; do sleep 0.05; done"
	if _, errs, err := lockCommand(ctx, "l", "--ttl", "9s", "--", "sh", "-c", wait); err != nil {
		t.Errorf("%v %s", err, errs)
	}
}

// A dead holder's lock goes to the next that tries, after its time to live; a cluster out of reach is an error at once.
func TestLockCommandOfTheDead(t *testing.T) {
	path := clitest.StartChain(t)
	t.Setenv(topology.PathVariable, path)
	cluster, err := client.LoadCluster(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster, Timeout: clitest.Formed})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lock(t.Context(), "l", client.LockOptions{TTL: 1500 * time.Millisecond, Note: "the dead"}); err != nil {
		t.Fatal(err)
	}
	c.Close() // its process is gone
	_, errs, err := lockCommand(t.Context(), "l", "--try", "--", "true")
	if err != nil || !strings.Contains(errs, "held by the dead") {
		t.Errorf("%v, %s", err, errs)
	}
	nowhere := filepath.Join(t.TempDir(), "cluster.yaml")
	file := "epoch: 1\nshards: 1\nnodes: [{name: n1, addr: 127.66.9.9:1}]\nchains: [[n1]]\n"
	if err := os.WriteFile(nowhere, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lockCommand(t.Context(), "l", "--cluster", nowhere, "--", "true"); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("a cluster out of reach: %v", err)
	}
}

// splitLine splits a command line at blanks outside single quotes.
func splitLine(line string) (args []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args
}

func statusAfter(err error) int {
	if err == nil {
		return 0
	}
	return cli.ExitStatus(err, true)
}

// A command whose lock is lost is ended, whether it wants to or not, with its children, before others can hold the lock.
func TestLockCommandLosesLock(t *testing.T) {
	c := chainClient(t)
	for _, script := range []string{
		"touch $READY; exec sleep 60",
		"trap '' TERM; touch $READY; sleep 60; sleep 60",
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		t.Setenv("READY", ready)
		ended := make(chan error, 1)
		go func() {
			_, _, err := lockCommand(context.Background(), "l", "--ttl", "300ms", "--", "sh", "-c", script)
			ended <- err
		}()
		for ticker := time.NewTicker(time.Millisecond); ; <-ticker.C {
			if _, err := os.Stat(ready); err == nil {
				break
			}
		}
		if _, err := c.Delete(t.Context(), "lock:l"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; statusAfter(err) != cli.ExitLockLost || !errors.Is(err, client.ErrLockLost) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// The terminal's signals reach a command in its foreground group without this process.
func TestForwards(t *testing.T) {
	for _, s := range []struct {
		signal             syscall.Signal
		shared, foreground bool
		want               bool
	}{
		{syscall.SIGINT, true, true, false},
		{syscall.SIGWINCH, true, true, false},
		{syscall.SIGTERM, true, true, true},
		{syscall.SIGHUP, true, true, true},
		{syscall.SIGCONT, true, true, true},
		{syscall.SIGINT, true, false, true},
		{syscall.SIGINT, false, true, true},
		{syscall.SIGTSTP, false, false, true},
	} {
		if forwards(s.signal, s.shared, s.foreground) != s.want {
			t.Errorf("%+v", s)
		}
	}
}
