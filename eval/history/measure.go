package history

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp/verified"
)

// Tree is a source tree in which `make build` has been run.
type Tree struct {
	Dir     string
	Bench   string // name of the program that has the benchmarks
	Unknown int    // its exit status if it does not know a command or a flag
}

// Measure returns the line of a tree. It runs the tree's own programs, so the
// tree may be of another commit. Without root, figures that need the kernel are missing. timed adds ratios.
func Measure(ctx context.Context, tree *Tree, timed bool) (*Line, error) {
	l := &Line{Tools: map[Tool]string{Arch: runtime.GOARCH}, Figures: make(map[string]float64)}
	for _, measure := range []func(context.Context, *Tree) error{l.commit, l.programs, l.kernels, l.binaries, l.sources} {
		if err := measure(ctx, tree); err != nil {
			return nil, err
		}
	}
	if os.Geteuid() != 0 {
		return l, nil
	}
	if err := tree.run(ctx, counts, l.Figures); err != nil {
		return nil, err
	}
	if timed {
		l.Timed = make(map[string]float64)
		return l, tree.run(ctx, ratios, l.Timed)
	}
	return l, nil
}

// commit names the commit that is checked out.
func (l *Line) commit(ctx context.Context, tree *Tree) error {
	text, err := tree.git(ctx, "log", "-1", "--format=%H %cI")
	if err != nil {
		return err
	}
	commit, date, _ := strings.Cut(strings.TrimSpace(text), " ")
	if err := l.Time.UnmarshalText([]byte(date)); err != nil {
		return err
	}
	l.Time = l.Time.UTC()
	changed, err := tree.git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err == nil && changed != "" {
		commit += Changed
	}
	l.Commit = commit
	return err
}

func (t *Tree) git(ctx context.Context, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, "git", append([]string{"-C", t.Dir}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w%s", strings.Join(args, " "), err, said(err))
	}
	return string(text), nil
}

// said is what a program wrote to standard error before it failed.
func said(err error) string {
	var failed *exec.ExitError
	if !errors.As(err, &failed) || len(failed.Stderr) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(failed.Stderr))
}

// programs counts the instructions of the node's BPF programs and, with root, what the verifier processes.
func (l *Line) programs(_ context.Context, tree *Tree) error {
	text, err := os.ReadFile(filepath.Join(tree.Dir, verified.Object))
	if err != nil {
		return fmt.Errorf("%w: run `make build`", err)
	}
	if l.Tools[Clang], err = compiler(text); err != nil {
		return fmt.Errorf("%s: %w", verified.Object, err)
	}
	sizes, err := xdp.ProgramSizes(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", verified.Object, err)
	}
	l.addPrograms("instructions", sizes)
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil || os.Geteuid() != 0 {
		return err
	}
	l.Tools[Kernel] = unix.ByteSliceToString(name.Release[:])
	processed, err := xdp.Processed(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", verified.Object, err)
	}
	l.addPrograms("processed", processed)
	return nil
}

// kernels adds the instructions that the verifiers of other kernels processed, if `make test-kernels` has run on this
// tree's object.
func (l *Line) kernels(_ context.Context, tree *Tree) error {
	reports, err := verified.Read(tree.Dir)
	for _, r := range reports {
		l.addPrograms("verified/"+r.Kernel, r.Processed)
	}
	return err
}

// ofAllMessages are the programs that run for messages. Of the others only the sum is kept.
var ofAllMessages = []string{"nq_ingress", "nq_bundle", "nq_egress", "nq_nearby"}

func (l *Line) addPrograms(kind string, of map[string]int) {
	rest := 0
	for name, n := range of {
		if slices.Contains(ofAllMessages, name) {
			l.Figures[kind+"/"+name] = float64(n)
		} else {
			rest += n
		}
	}
	l.Figures[kind+"/rest"] = float64(rest)
}

var clangVersion = regexp.MustCompile(`clang version ([0-9.]+)`)

// compiler finds the version of clang in an object's debug information.
func compiler(object []byte) (string, error) {
	file, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return "", err
	}
	defer file.Close()
	section := file.Section(".debug_str")
	if section == nil {
		return "", errors.New("no debug information, which names the compiler")
	}
	text, err := section.Data()
	if err != nil {
		return "", err
	}
	found := clangVersion.FindSubmatch(text)
	if found == nil {
		return "", errors.New("the debug information names no version of clang")
	}
	return string(found[1]), nil
}

// binaries are those that are installed. A commit may lack one.
func (l *Line) binaries(_ context.Context, tree *Tree) error {
	for _, name := range []string{"netcraq", "netcraq-cni"} {
		path := filepath.Join(tree.Dir, "bin", name)
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		built, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		l.Tools[Go] = built.GoVersion
		l.Figures["binary/"+name] = float64(info.Size())
	}
	if l.Tools[Go] == "" {
		return fmt.Errorf("no programs in %s: run `make build`", filepath.Join(tree.Dir, "bin"))
	}
	return nil
}

// source is a command that prints values as JSON, and the figures that it gives.
type source struct {
	args    []string
	figures map[string]string // name by the value's
}

// counts do not depend on the load of the machine, so a short window is enough.
var counts = []source{
	{args: []string{"memory", "--keys", "100000"}, figures: map[string]string{"bytes_per_object": "bytes-per-object"}},
	{args: []string{"write"}, figures: map[string]string{
		"packets_per_write": "packets-per-write", "hops": "hops-per-write",
	}},
}

const countSeconds, countRounds = "0.2", "1"

// ratios are those of a system to a swap program that runs in alternation with it. A client's allocations are among
// them: they fall with the number of messages that wait, so they depend on the load.
var ratios = []source{
	{args: []string{"read", "--seconds", "2"}, figures: map[string]string{"ratio": "read/1"}},
	{args: []string{"read", "--keys", "100000", "--seconds", "2"}, figures: map[string]string{"ratio": "read/100000"}},
	{args: []string{"write", "--seconds", "2"}, figures: map[string]string{"ratio": "write"}},
	{args: []string{"client", "--seconds", "2"}, figures: map[string]string{"allocations": "allocations-per-get"}},
}

// run runs benchmarks of a tree and adds their figures. Those that the tree does not have yet are left out.
func (t *Tree) run(ctx context.Context, sources []source, to map[string]float64) error {
	for _, s := range sources {
		args := append([]string{"bench"}, s.args...)
		if !slices.Contains(s.args, "--seconds") {
			args = append(args, "--seconds", countSeconds, "--rounds", countRounds)
		}
		values, err := t.bench(ctx, append(args, "--json"))
		if err != nil {
			return err
		}
		for name, figure := range maps.All(s.figures) {
			if v, ok := values[name].(float64); ok {
				to[figure] = v
			}
		}
	}
	return nil
}

// bench returns nothing if the tree's program does not know the command.
func (t *Tree) bench(ctx context.Context, args []string) (map[string]any, error) {
	path := filepath.Join(t.Dir, "bin", t.Bench)
	text, err := exec.CommandContext(ctx, path, args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == t.Unknown {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w%s", t.Bench, strings.Join(args, " "), err, said(err))
	}
	var values map[string]any
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%s %s: %w", t.Bench, strings.Join(args, " "), err)
	}
	if wrong, ok := values["wrong"].(float64); ok && wrong > 0 {
		return nil, fmt.Errorf("%s %s: %v wrong answers", t.Bench, strings.Join(args, " "), wrong)
	}
	return values, nil
}
