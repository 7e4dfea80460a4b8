package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// TestNodeOfADeadSwitch: a node whose engine ends has lost its objects. The command ends with the reason, so that the
// node gets no lease any more.
func TestNodeOfADeadSwitch(t *testing.T) {
	roottest.Need(t)
	enginetest.Need(t)
	path := clusterFile(t, "n1")
	before := children(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, _, err := clitest.Execute(ctx, newNodeCommand(), "--name", "n1", "--cluster", path, "--plane", "p4",
			"--port-if", "lo", "--cell-bytes", "64", "--objects", "16", "--sessions", "16", "--accept-data-loss")
		done <- err
	}()
	await(t, "the node serves", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the node ended: %v", err)
		default:
		}
		nodes, err := inspectAll(t, "n1", "--cluster", path)
		return err == nil && len(nodes[0].Chains) == 1
	})
	killed := 0
	for pid, name := range children(t) {
		if before[pid] == "" && strings.Contains(name, "netcraq-swx") {
			killed++
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed != 1 {
		t.Fatalf("%d engines run", killed)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the switch is gone") ||
		!strings.Contains(err.Error(), "killed") {
		t.Errorf("the node ended with %v", err)
	}
}

// children are the names of this process's children, by number.
func children(t *testing.T) map[int]string {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[int]string)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a thread may have ended
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			if name, err := os.ReadFile(filepath.Join("/proc", word, "comm")); err == nil {
				all[pid] = string(name)
			}
		}
	}
	return all
}
