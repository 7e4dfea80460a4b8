package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// burnersAlive returns the busy loops of a lab busy that this test started, found by a mark in
// their environment.
func burnersAlive(t *testing.T, mark string) (pids []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		environment, _ := os.ReadFile(filepath.Join(dir, "environ")) // empty if the process has ended
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		argv := strings.Split(string(command), "\x00")
		if bytes.Contains(environment, []byte(mark)) && slices.Contains(argv, burnCommand) {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}

// busyCommand is a short lab busy. Its nodes may be silent for longer than any pause, so that the
// outcome does not depend on the machine.
func busyCommand(name, mark string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "lab", "busy", "--name", name, "--seconds", "2", "--stopped", "0.3",
		"--burners-per-cpu", "1", "--objects", "500", "--shards", "16", "--writers", "4", "--readers", "2",
		"--seed", "1", "--json",
		"--beat", "50ms", "--suspect", "5s", "--lease", "6s")
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", mark+"=1")
	return cmd
}

// TestBusy is the short form of `netcraq lab busy`.
func TestBusy(t *testing.T) {
	name := clitest.LabName(t, "b")
	mark := "NETCRAQ_BUSY_" + name
	cmd := busyCommand(name, mark)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	var r map[string]any
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"suspected", "least_copies", "failed_writes", "longest_write_gap_ms", "whole_again_s",
		"writes", "reads", "failed_reads", "longest_read_gap_ms", "linearizable", "seed", "stopped", "burners", "nodes",
		"shards", "objects", "writers", "readers", "pauses"} {
		if r[field] == nil {
			t.Errorf("no %q in %s", field, out)
		}
	}
	if r["linearizable"] != true || r["whole"] != true || r["seed"] != 1.0 || r["nodes"] != 4.0 || r["shards"] != 16.0 {
		t.Errorf("%s", out)
	}
	for _, field := range []string{"writes", "reads", "pauses", "longest_write_gap_ms"} {
		if n, ok := r[field].(float64); !ok || n <= 0 {
			t.Errorf("%s is %v", field, r[field])
		}
	}
	nothingLeft(t, name, mark)
}

// nothingLeft checks that there are no lab of the name and no busy loops.
func nothingLeft(t *testing.T, name, mark string) {
	t.Helper()
	if out := clitest.MustRun(t, "lab", "--name", name, "down"); !strings.Contains(out, "is not up") {
		t.Errorf("the lab is left: %s", out)
	}
	if left, err := os.ReadDir("/dev/shm/netcraq-labs/" + name); err == nil {
		t.Errorf("left in memory: %v", left)
	}
	if pids := burnersAlive(t, mark); len(pids) > 0 {
		t.Errorf("busy loops are left: %v", pids)
	}
}

// TestBusyEndsWithItsProcess expects an interrupted command to remove everything. A killed one
// cannot, but its busy loops must end.
func TestBusyEndsWithItsProcess(t *testing.T) {
	name := clitest.LabName(t, "b")
	mark := "NETCRAQ_BUSY_" + name
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		cmd := busyCommand(name, mark)
		cmd.Args = append(cmd.Args, "--seconds", "600")
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := awaitLine(log, "noise: "); err != nil {
			t.Error(err)
		}
		for len(burnersAlive(t, mark)) == 0 && t.Context().Err() == nil { // they start just after that line
			<-time.After(10 * time.Millisecond)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%v: no error", signal)
		}
		if signal == os.Interrupt {
			nothingLeft(t, name, mark)
			continue
		}
		deadline := time.Now().Add(time.Minute)
		for len(burnersAlive(t, mark)) > 0 {
			if time.Now().After(deadline) {
				t.Fatal("busy loops outlive the command that started them")
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// awaitLine reads until a line with a text and then discards the rest in the background.
func awaitLine(from interface{ Read([]byte) (int, error) }, text string) error {
	lines := bufio.NewScanner(from)
	var seen []string
	for lines.Scan() {
		if seen = append(seen, lines.Text()); strings.Contains(lines.Text(), text) {
			go func() {
				for lines.Scan() {
				}
			}()
			return nil
		}
	}
	return fmt.Errorf("no line %q in %q", text, seen)
}
