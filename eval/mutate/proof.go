package mutate

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// The kernel's verifier proves that some ways are never taken: it follows each way that the values of registers allow,
// and takes the other instructions out. So a mutant that closes such a way is equal to the code. With other constants
// other ways are open, so the proof is repeated for each set of options that the tests use, and for those of
// otherSettings.

// open notes the mutants that close a way which the verifier found open. The programs that are loaded set marks.
func (s *XDP) open() error {
	for name, p := range s.node.Loaded() {
		first, ok := s.first[name]
		if !ok {
			continue
		}
		info, err := p.Info()
		if err != nil {
			return err
		}
		code, err := info.Instructions()
		if err != nil {
			return fmt.Errorf("the instructions of %s in the kernel: %w", name, err)
		}
		for i := range code {
			if at, ok := s.marks.at(&code[i]); ok && at >= first {
				s.possible[at] = true
			}
		}
	}
	for i, blind := range s.marks.blind {
		s.possible[i] = s.possible[i] || blind
	}
	return nil
}

// at returns the mutant whose mark an instruction in the kernel loads the address of.
func (m *marks) at(i *asm.Instruction) (mutant int, ok bool) {
	if i.OpCode != asm.LoadImmOp(asm.DWord) || i.Src != asm.PseudoMapValue || ebpf.MapID(uint32(i.Constant)) != m.id {
		return 0, false
	}
	mutant = int(uint64(i.Constant) >> 32)
	return mutant, mutant < len(m.blind)
}

// setting is a set of constants with which a node can be loaded.
type setting struct {
	options chain.Options
	values  map[string]any
}

// otherSettings are what nodes are loaded with and the tests are not: the clock of the kernel, each phase of tags with
// each kind of cells, and the other constants on and off.
func otherSettings() (all []setting) {
	phases := []wire.Tags{wire.TagsOff, wire.TagsAccepted, wire.TagsSent, wire.TagsRequired}
	for i, cell := range []int{8, 16, 64, wire.MaxValueBytes} {
		for j, phase := range phases {
			on := func(bit int) bool { return (i+j)>>bit&1 != 0 }
			o := chain.Options{Shards: 1 << (4 * i), CellBytes: cell, MaxObjects: 64, MaxSessions: 64, Tags: phase, Relay: on(0)}
			values := map[string]any{"nq_test_clock": uint8(0), "nq_test_ifindex": uint32(0), "nq_detours": uint8(1)}
			if on(1) {
				o.ClientRate, o.AnswerRate, o.ClientSessions = 1000, 10_000, 4
				values["nq_detours"] = uint8(0)
			}
			if i == j {
				values["nq_weak_memory"] = uint8(1)
				values["nq_pod_addr"] = [4]byte{169, 254, 77, 1}
				values["nq_transit"] = uint8(1)
			}
			all = append(all, setting{o, values})
		}
	}
	return all
}

// prove repeats the proof for the other settings.
func (s *XDP) prove() error {
	s.loaded = variant{}
	for _, other := range otherSettings() {
		if err := s.node.SetChange(s.marked(other.values, nil)); err != nil {
			return err
		}
		if err := s.node.Reset(other.options); err != nil {
			return fmt.Errorf("the programs with marks, %+v: %w", other, err)
		}
		if err := s.open(); err != nil {
			return err
		}
	}
	s.proved = true
	return nil
}

// isEqual reports whether no node takes the way that a mutant closes.
func (s *XDP) isEqual(m *Mutant) (bool, error) {
	if !s.possible[m.number] && !s.proved {
		if err := s.prove(); err != nil {
			return false, err
		}
	}
	return !s.possible[m.number], nil
}

// setValues sets constants of programs.
func setValues(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, value := range values {
		v := spec.Variables[name]
		if v == nil {
			return fmt.Errorf("the programs have no constant %s", name)
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// stub empties the programs that no test runs: then the others load sooner.
func (s *XDP) stub(spec *ebpf.CollectionSpec) {
	for name, p := range spec.Programs {
		if slices.Contains(stubs, name) {
			p.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol(name), asm.Return()}
		}
	}
}

var stubs = []string{
	"nq_egress", "nq_grow", "nq_export", "nq_collect", "nq_give_up", "nq_export_sessions", "nq_import_sessions",
	"nq_drop_sessions",
}
