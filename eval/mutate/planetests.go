package mutate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// planeTests are the XDP plane's own tests, which try what no vector does: transit, rates, forged tags, detours, hops,
// contention, tables that are full. The programs that they load are those of a mutant, which the environment names.
type planeTests struct {
	tests   []goBinary
	temp    string
	reached [][]bool // by test and mutant
}

const dirOfXDP = "internal/node/dataplane/xdp"

// testsOfPlane are the tests that look at what programs do. Those that take long or measure times are left out.
var testsOfPlane = []struct {
	dir   string
	names []string
}{
	{"internal/verify/harness", []string{
		"TestForgeriesChangeNothing", "TestReplaysToOtherNodesChangeNothing", "TestClientsAreLimited", "TestTransit",
		"TestTransitIsForNodesMessages", "TestMachineSmall", "TestMachineOrder",
	}},
	{dirOfXDP, []string{
		"TestContended", "TestFramesOfPodsTakeNoDetour", "TestLostDetoursAreCounted", "TestTagsKeepTheRest",
		"TestGrantsOfAnotherSet", "TestHopsAreOfOneQuestion", "TestHopsAreForgotten", "TestHopsKnowTheMTU", "TestNearby",
		"TestNearbyOfDeletedEntries", "TestNearbyEpoch", "TestOnePlace", "TestChosenKeys", "TestAckIsPunted",
		"TestOlderSessions", "TestNewSessions",
	}},
}

// overlaid are the files of this package that the plane's tests get.
var overlaid = []string{"flow.go", "reach.go", "liveness.go"}

// programVariable names the mutant that the plane's tests run, or asks for marks in a map that they inherit.
const programVariable = "NETCRAQ_MUTANT_PROGRAM"

// planeReader reads the programs in place of readObject.
const planeReader = `package xdp

import (
	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp/mutant"
)

func readObject(compressed []byte) (*ebpf.CollectionSpec, error) {
	spec, err := plainObject(compressed)
	if err == nil {
		err = mutant.Change(spec)
	}
	return spec, err
}
`

// planeHelper is a package that changes programs. The name of a mutant is "PROGRAM INSTRUCTION CHANGE"; marks are
// "FIRST MUTANTS", with the number of each program's first mutant as in "nq_ingress=0,nq_bundle=900".
const planeHelper = `package mutant

import (
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func Change(spec *ebpf.CollectionSpec) (err error) {
	var program, change, firsts string
	var at, mutants int
	text := os.Getenv("` + programVariable + `")
	if n, _ := fmt.Sscan(text, &program, &at, &change); n == 3 && spec.Programs[program] != nil {
		p := spec.Programs[program]
		p.Instructions, err = force(p.Instructions, at, change == "always")
		return err
	}
	if n, _ := fmt.Sscan(text, &firsts, &mutants); n == 2 {
		return markAll(spec, firsts, mutants)
	}
	return nil
}

func markAll(spec *ebpf.CollectionSpec, firsts string, mutants int) error {
	fd, err := unix.Dup(3)
	if err != nil {
		return err
	}
	table, err := ebpf.NewMapFromFD(fd)
	if err != nil {
		return err
	}
	m, err := marksIn(table, mutants)
	if err != nil {
		return err
	}
	for _, each := range strings.Split(firsts, ",") {
		var first int
		name, number, _ := strings.Cut(each, "=")
		if _, err := fmt.Sscan(number, &first); err != nil {
			return err
		}
		if p := spec.Programs[name]; p != nil {
			if p.Instructions, err = m.mark(p.Instructions, first); err != nil {
				return err
			}
		}
	}
	return nil
}
`

// newPlaneTests compiles the tests in a copy of the source at root.
func newPlaneTests(ctx context.Context, root string) (_ *planeTests, err error) {
	p := new(planeTests)
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if p.temp, err = os.MkdirTemp("", "mutate-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	overlay, err := p.overlay(root)
	if err != nil {
		return nil, err
	}
	for i, t := range testsOfPlane {
		b := goBinary{dir: filepath.Join(root, t.dir), path: filepath.Join(p.temp, fmt.Sprint("test", i))}
		if err := b.build(ctx, root, t.dir, overlay); err != nil {
			return nil, err
		}
		for _, name := range t.names {
			b.name, b.args = name, []string{"-test.run=^" + name + "$"}
			p.tests = append(p.tests, b)
		}
	}
	return p, nil
}

func (p *planeTests) overlay(root string) (path string, err error) {
	dir := filepath.Join(root, dirOfXDP)
	object, err := os.ReadFile(filepath.Join(dir, "object.go"))
	if err != nil {
		return "", fmt.Errorf("--source has to name the folder of NetCRAQ's go.mod: %w", err)
	}
	const reads = "\nfunc readObject("
	if !strings.Contains(string(object), reads) {
		return "", errors.New("object.go reads the programs in another function")
	}
	files := map[string]string{
		"object.go": strings.Replace(string(object), reads, "\nfunc plainObject(", 1), helperFile: planeReader,
		"mutant/mutant.go": planeHelper,
	}
	for _, name := range overlaid {
		text, err := os.ReadFile(filepath.Join(root, "eval/mutate", name))
		if err != nil {
			return "", err
		}
		files["mutant/"+name] = strings.Replace(string(text), "package mutate\n", "package mutant\n", 1)
	}
	return writeOverlay(p.temp, dir, files)
}

// Close removes the tests.
func (p *planeTests) Close() error { return os.RemoveAll(p.temp) }

// trace runs the tests on the unchanged programs, with marks.
func (p *planeTests) trace(ctx context.Context, s *XDP) (Verdict, error) {
	var firsts []string
	for name, first := range s.first {
		firsts = append(firsts, fmt.Sprintf("%s=%d", name, first))
	}
	slices.Sort(firsts)
	fd, err := unix.Dup(s.marks.table.FD()) // the file closes it
	if err != nil {
		return Verdict{}, err
	}
	file := os.NewFile(uintptr(fd), "marks")
	defer file.Close()
	p.reached = nil
	for i := range p.tests {
		t := &p.tests[i]
		t.inherit = file
		why, err := t.run(ctx, fmt.Sprintf("%s=%s %d", programVariable, strings.Join(firsts, ","), len(s.mutants)))
		t.inherit = nil
		if err != nil {
			return Verdict{}, err
		}
		if why != "" {
			return Verdict{Fate: Noticed, By: t.name, Why: why}, nil
		}
		reached, _, err := s.marks.take()
		if err != nil {
			return Verdict{}, err
		}
		for m, blind := range s.marks.blind {
			reached[m] = reached[m] || blind
		}
		p.reached = append(p.reached, reached)
	}
	return Verdict{Fate: Survived}, nil
}

// try runs the tests that reach a mutant.
func (p *planeTests) try(ctx context.Context, m *Mutant) (Verdict, error) {
	for i := range p.tests {
		t := &p.tests[i]
		if !p.reached[i][m.number] {
			continue
		}
		why, err := t.run(ctx, fmt.Sprintf("%s=%s %d %s", programVariable, m.Program, m.Instruction, m.Change))
		if err != nil {
			return Verdict{}, err
		}
		if why != "" {
			return Verdict{Fate: Noticed, By: t.name, Why: why}, nil
		}
	}
	return Verdict{Fate: Survived}, nil
}
