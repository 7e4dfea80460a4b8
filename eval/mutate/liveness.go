package mutate

import "github.com/cilium/ebpf/asm"

// registers is a set of registers: bit n stands for Rn.
type registers uint16

const (
	arguments   registers = 1<<asm.R1 | 1<<asm.R2 | 1<<asm.R3 | 1<<asm.R4 | 1<<asm.R5
	scratched             = arguments | 1<<asm.R0 // a call leaves nothing in them
	allWritable registers = 1<<asm.R10 - 1
)

// effect returns the registers that an instruction reads, and those that it overwrites. Where it may read less, or
// overwrite more, than is said here, a register counts as live for longer than it is.
func effect(i *asm.Instruction) (reads, writes registers) {
	dst, src := registers(1)<<i.Dst, registers(1)<<i.Src
	switch class := i.OpCode.Class(); {
	case class == asm.LdClass:
		if i.OpCode.Mode() == asm.ImmMode {
			return 0, dst
		}
		return allWritable, 0
	case class == asm.LdXClass:
		return src, dst
	case class == asm.StClass:
		return dst, 0
	case class == asm.StXClass:
		return dst | src | 1<<asm.R0, 0 // R0: of a compare-and-exchange
	case class.IsALU():
		if i.OpCode.Source() != asm.RegSource {
			src = 0
		}
		if i.OpCode.ALUOp() == asm.Mov {
			return src, dst
		}
		return dst | src, dst
	}
	switch i.OpCode.JumpOp() {
	case asm.Call:
		return arguments, scratched
	case asm.Exit:
		return 1 << asm.R0, 0
	case asm.Ja:
		return 0, 0
	}
	if i.OpCode.Source() != asm.RegSource {
		src = 0
	}
	return dst | src, 0
}

// live returns the registers whose values the program may still read, before each of its instructions.
func (f *flow) live() []registers {
	live := make([]registers, len(f.code)+1)
	for changed := true; changed; {
		changed = false
		for i := len(f.code) - 1; i >= 0; i-- {
			reads, writes := effect(&f.code[i])
			var after registers
			if f.target[i] >= 0 {
				after |= live[f.target[i]]
			}
			if f.goesOn(i) {
				after |= live[i+1]
			}
			if before := reads | after&^writes; before != live[i] {
				live[i], changed = before, true
			}
		}
	}
	return live
}

// goesOn reports whether the next instruction may follow one.
func (f *flow) goesOn(i int) bool {
	code := &f.code[i]
	op := code.OpCode.JumpOp()
	return !code.OpCode.Class().IsJump() || op != asm.Ja && op != asm.Exit
}

// free returns a register that is not live.
func (live registers) free() (r asm.Register, ok bool) {
	for r := asm.R0; r < asm.R10; r++ {
		if live&(1<<r) == 0 {
			return r, true
		}
	}
	return 0, false
}
