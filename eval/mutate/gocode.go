package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// goTest is a package of tests, and their arguments.
type goTest struct {
	dir  string
	args []string
}

// machine is a package that decides without I/O, and the tests that ought to notice its mutants: its own, those of a
// plane that runs it, and a bounded simulation.
type machine struct {
	dir   string
	tests []goTest
}

// machines are the pure machines by the names of their planes.
var machines = map[string]machine{
	"chain": {"internal/node/chain", []goTest{
		{"internal/node/chain", nil},
		{"internal/verify/conformance", []string{"-test.run=^TestVectors$"}},
		{"internal/node/dataplane/soft", nil},
		{"internal/verify/sim", []string{"-test.run=^TestSeeds$", "-seeds=100"}},
	}},
	"reconfig": {"internal/cluster/reconfig", []goTest{
		{"internal/cluster/reconfig", []string{"-rapid.checks=10", "-rapid.seed=1"}},
		{"internal/verify/sim", []string{"-test.run=^TestSeeds$", "-seeds=100"}},
	}},
	"core": {"internal/gateway/core", []goTest{
		{"internal/gateway/core", nil},
		{"internal/verify/gatewaysim", []string{"-test.run=^TestSeeds$", "-seeds=100"}},
	}},
}

// IsGo reports whether a plane is a pure machine in Go.
func IsGo(plane string) bool {
	_, ok := machines[plane]
	return ok
}

// Limits of a mutant's tests. A mutant that exceeds them is noticed. The limit of the CPU's time ends loops, however much
// other work the machine has; the other one is for tests that wait for ever.
const (
	goTestCPU    = 5 * time.Minute
	goTestTime   = time.Hour
	goTestMemory = 3 << 30 // bytes
)

// Go is a pure machine as a [Subject].
type Go struct {
	code  *instrumented
	tests []goBinary
	temp  string
}

type goBinary struct {
	name, path, dir string
	args            []string
	inherit         *os.File // as file 3; nil: none
}

// build compiles the tests of a folder of the source at root.
func (t *goBinary) build(ctx context.Context, root, dir, overlay string) error {
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", t.path, "./"+dir)
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c ./%s: %w\n%s", dir, err, text)
	}
	return nil
}

// NewGo compiles the tests of a machine, whose mutants are all in them, in a copy of the source at root.
func NewGo(ctx context.Context, plane, root string) (_ *Go, err error) {
	of := machines[plane]
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	s := new(Go)
	if s.code, err = instrument(os.DirFS(filepath.Join(root, of.dir))); err != nil {
		return nil, err
	}
	if len(s.code.mutants) == 0 {
		return nil, fmt.Errorf("%s has no conditions: --source has to name the folder of NetCRAQ's go.mod", filepath.Join(root, of.dir))
	}
	if s.temp, err = os.MkdirTemp("", "mutate-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	overlay, err := writeOverlay(s.temp, filepath.Join(root, of.dir), s.code.files)
	if err != nil {
		return nil, err
	}
	for i, t := range of.tests {
		b := goBinary{
			name: t.dir, path: filepath.Join(s.temp, fmt.Sprint("test", i)), dir: filepath.Join(root, t.dir), args: t.args,
		}
		if err := b.build(ctx, root, t.dir, overlay); err != nil {
			return nil, err
		}
		s.tests = append(s.tests, b)
	}
	return s, nil
}

// writeOverlay writes files that the compiler takes in place of those of a folder, or beside them, and the file that
// tells it of them.
func writeOverlay(temp, dir string, files map[string]string) (path string, err error) {
	replace := make(map[string]string)
	for name, text := range files {
		at := filepath.Join(temp, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(dir, name)] = at
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(temp, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// Close removes the tests.
func (s *Go) Close() error { return os.RemoveAll(s.temp) }

// Mutants implements [Subject].
func (s *Go) Mutants() []Mutant { return s.code.mutants }

// Try implements [Subject].
func (s *Go) Try(ctx context.Context, m *Mutant) (Verdict, error) {
	number := 0
	if m != nil {
		number = m.number
	}
	for i := range s.tests {
		t := &s.tests[i]
		why, err := t.run(ctx, fmt.Sprintf("%s=%d", mutantVariable, number))
		if err != nil {
			return Verdict{}, err
		}
		if why != "" {
			return Verdict{Fate: Noticed, By: t.name, Why: why}, nil
		}
	}
	return Verdict{Fate: Survived}, nil
}

// run runs the tests on the mutant that a variable names, and returns the end of their output if they fail.
func (t *goBinary) run(ctx context.Context, variable string) (why string, err error) {
	limited, cancel := context.WithTimeout(ctx, goTestTime)
	defer cancel()
	c := exec.CommandContext(limited, t.path, append([]string{"-test.failfast"}, t.args...)...)
	c.Dir = t.dir
	c.Env = append(os.Environ(), variable)
	if t.inherit != nil {
		c.ExtraFiles = []*os.File{t.inherit}
	}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		return "", err
	}
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_DATA: goTestMemory, unix.RLIMIT_CPU: uint64(goTestCPU / time.Second),
	} {
		err := unix.Prlimit(c.Process.Pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return "", errors.Join(err, c.Process.Kill(), c.Wait())
		}
	}
	err = c.Wait()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "", nil
	case limited.Err() != nil:
		return fmt.Sprintf("no end within %v", goTestTime), nil
	case errors.As(err, &failed) && c.ProcessState.UserTime()+c.ProcessState.SystemTime() >= goTestCPU:
		return fmt.Sprintf("no end after %v of a CPU", goTestCPU), nil
	case errors.As(err, &failed):
		return endOf(output.String()), nil
	}
	return "", err
}

// endOf returns the last part of a text.
func endOf(text string) string {
	const most = 1000
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}
