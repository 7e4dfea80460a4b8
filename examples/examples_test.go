package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// program is one that Test compiled.
type program struct {
	path    string
	cluster string
}

// run returns the output of the program.
func (p program) run(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), p.path, args...)
	command.Env = append(os.Environ(), topology.PathVariable+"="+p.cluster)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v: %s", filepath.Base(p.path), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// sideBySide runs n processes at once and returns all of their output.
func (p program) sideBySide(t *testing.T, n int, args func(i int) []string) string {
	t.Helper()
	outputs := make([]string, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { outputs[i] = p.run(t, args(i)...) })
	}
	group.Wait()
	return strings.Join(outputs, "")
}

func build(t *testing.T, name string) program {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", path, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program{path, clitest.StartChain(t)}
}

const processes = 4

func TestLock(t *testing.T) {
	p := build(t, "lock")
	out := p.sideBySide(t, processes, func(int) []string { return []string{"-times", "3"} })
	for i := 1; i <= 3*processes; i++ {
		if n := strings.Count(out, fmt.Sprintf(": the number is %d\n", i)); n != 1 {
			t.Errorf("%d increments led to %d", n, i)
		}
	}
}

func TestLeader(t *testing.T) {
	p := build(t, "leader")
	out := p.sideBySide(t, 3, func(i int) []string { return []string{"-name", fmt.Sprint("c", i), "-for", "10ms"} })
	tokens := make(map[string]bool)
	for _, found := range regexp.MustCompile(`leads with token (\d+)\nc\d resigns`).FindAllStringSubmatch(out, -1) {
		tokens[found[1]] = true
	}
	if len(tokens) != 3 {
		t.Errorf("not three leaders with tokens of their own:\n%s", out)
	}
}

func TestConfig(t *testing.T) {
	p := build(t, "config")
	if out := p.run(t); out != "version 0\n" {
		t.Errorf("before any setting: %s", out)
	}
	p.sideBySide(t, processes, func(i int) []string { return []string{fmt.Sprint("name", i), fmt.Sprint(i)} })
	want := fmt.Sprintf("version %d\n", processes)
	for i := range processes {
		want += fmt.Sprintf("  name%d = %d\n", i, i)
	}
	if out := p.run(t); out != want {
		t.Errorf("settings:\n%swant:\n%s", out, want)
	}
}

func TestCounter(t *testing.T) {
	p := build(t, "counter")
	p.sideBySide(t, processes, func(int) []string { return []string{"-times", "25"} })
	if out, want := p.run(t, "-times", "0"), fmt.Sprintf("visits: %d\n", 25*processes); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}
