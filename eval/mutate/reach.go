package mutate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// marks is a map that changed programs write. It has a byte for each mutant, which says that a message went the way
// that the mutant closes: a test of which no message did cannot notice the mutant. At its end is a count.
type marks struct {
	table *ebpf.Map
	id    ebpf.MapID
	bytes []byte
	blind []bool // by mutant: no register was free for its mark, so it counts as marked
}

const countBytes = 8

func newMarks(mutants int) (*marks, error) {
	size := (mutants+countBytes-1)&^(countBytes-1) + countBytes
	table, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "nq_marks", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("the map of marks: %w", err)
	}
	m, err := marksIn(table, mutants)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	return m, nil
}

// marksIn returns the marks in a map that has been made.
func marksIn(table *ebpf.Map, mutants int) (*marks, error) {
	info, err := table.Info()
	if err != nil {
		return nil, err
	}
	id, ok := info.ID()
	if !ok {
		return nil, errors.New("the kernel names no map's ID")
	}
	return &marks{table, id, make([]byte, info.ValueSize), make([]bool, mutants)}, nil
}

// take returns which mutants are marked, and the count, and sets both to zero.
func (m *marks) take() (reached []bool, count uint64, err error) {
	if err := m.table.Lookup(uint32(0), &m.bytes); err != nil {
		return nil, 0, err
	}
	for i, blind := range m.blind {
		reached = append(reached, blind || m.bytes[i] != 0)
	}
	count = binary.NativeEndian.Uint64(m.bytes[m.countAt():])
	return reached, count, m.table.Put(uint32(0), make([]byte, len(m.bytes)))
}

func (m *marks) countAt() int { return len(m.bytes) - countBytes }

// place is an instruction of a program that grows.
type place struct {
	code   asm.Instruction
	before int // where it jumps to, as an index in the program as it was, or -1
	now    int // the same in the new one, or -1
}

// writer writes a program that grows.
type writer struct {
	*marks
	out []place
}

func (w *writer) put(code asm.Instruction, before, now int) {
	w.out = append(w.out, place{code, before, now})
}

// load makes a register point into the map.
func (w *writer) load(r asm.Register, at int) error {
	load := asm.LoadMapValue(r, 0, uint32(at))
	if err := load.AssociateMap(w.table); err != nil {
		return err
	}
	w.put(load, -1, -1)
	return nil
}

// mark sets the byte of a mutant.
func (w *writer) mark(mutant int, live registers) error {
	r, ok := live.free()
	if w.blind[mutant] = !ok; !ok {
		return nil
	}
	if err := w.load(r, mutant); err != nil {
		return err
	}
	w.put(asm.StoreImm(r, 0, 1, asm.Byte), -1, -1)
	return nil
}

// conditional writes a conditional jump, whose two ways set the marks of two mutants.
func (w *writer) conditional(f *flow, i, mutant int, live []registers) error {
	jump := len(w.out)
	w.put(f.code[i], -1, -1)
	// A jump that is always taken changes what becomes of messages for which it was not, and the other way round.
	if err := w.mark(mutant, live[i+1]); err != nil {
		return err
	}
	over := len(w.out)
	w.put(asm.Ja.Label(""), -1, -1)
	w.out[jump].now = len(w.out)
	if err := w.mark(mutant+1, live[f.target[i]]); err != nil {
		return err
	}
	w.put(asm.Ja.Label(""), f.target[i], -1)
	w.out[over].now = len(w.out)
	return nil
}

// mark returns a program that does the same and sets marks. Its mutants are those of [conditionals], the first of them
// has this number.
func (m *marks) mark(code asm.Instructions, first int) (asm.Instructions, error) {
	return m.rewrite(code, func(w *writer, f *flow, i int, live []registers) error {
		if !isConditional(&f.code[i]) {
			w.put(f.code[i], f.target[i], -1)
			return nil
		}
		first += 2
		return w.conditional(f, i, first-2, live)
	})
}

// rewrite returns a program in which write has written what stands in the place of each instruction.
func (m *marks) rewrite(code asm.Instructions,
	write func(w *writer, f *flow, i int, live []registers) error) (asm.Instructions, error) {
	f, err := flowOf(code)
	if err != nil {
		return nil, err
	}
	live, moved, w := f.live(), make([]int, len(code)), &writer{marks: m}
	for i := range f.code {
		moved[i] = len(w.out)
		if err := write(w, f, i, live); err != nil {
			return nil, err
		}
	}
	return w.resolve(moved)
}

// slowPaths are the functions that handle what the fast path leaves to them.
var slowPaths = map[string]bool{"handle": true, "refuse_slot": true}

// countSlow returns a program that does the same, and counts how often it enters a function of [slowPaths].
func (m *marks) countSlow(code asm.Instructions) (asm.Instructions, error) {
	return m.rewrite(code, func(w *writer, f *flow, i int, live []registers) error {
		w.put(f.code[i], f.target[i], -1)
		if !slowPaths[f.code[i].Symbol()] {
			return nil
		}
		at, ok := live[i+1].free()
		one, ok2 := (live[i+1] | 1<<at).free()
		if !ok || !ok2 || f.code[i].OpCode.Class().IsJump() {
			return fmt.Errorf("no entry of %s", f.code[i].Symbol())
		}
		if err := w.load(at, m.countAt()); err != nil {
			return err
		}
		w.put(asm.Mov.Imm(one, 1), -1, -1)
		w.put(asm.StoreXAdd(at, one, asm.DWord), -1, -1)
		return nil
	})
}

// resolve sets the distances of all jumps.
func (w *writer) resolve(moved []int) (asm.Instructions, error) {
	var code asm.Instructions
	for i := range w.out {
		code = append(code, w.out[i].code)
	}
	offsets := offsetsOf(code)
	for i := range w.out {
		target := w.out[i].now
		if before := w.out[i].before; before >= 0 {
			target = moved[before]
		}
		if target < 0 {
			continue
		}
		if err := setDistance(&code[i], int64(offsets[target])-int64(offsets[i])-1); err != nil {
			return nil, err
		}
	}
	return code, nil
}
