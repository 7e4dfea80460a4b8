package mutate

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf/asm"
)

// isConditional reports whether an instruction is a conditional jump.
func isConditional(i *asm.Instruction) bool {
	if !i.OpCode.Class().IsJump() {
		return false
	}
	switch i.OpCode.JumpOp() {
	case asm.Ja, asm.Call, asm.Exit, asm.JCOND, asm.InvalidJumpOp:
		return false
	}
	return true
}

// force returns a program in which the jump at an index is always or never taken, without the instructions that nothing
// reaches any more: the verifier refuses such instructions.
func force(code asm.Instructions, at int, always bool) (asm.Instructions, error) {
	f, err := flowOf(code)
	if err != nil {
		return nil, err
	}
	jump := &f.code[at]
	if !isConditional(jump) {
		return nil, fmt.Errorf("instruction %d is no conditional jump: %v", at, jump)
	}
	jump.OpCode, jump.Dst, jump.Src, jump.Constant = asm.Ja.Label("").OpCode, 0, 0, 0
	if !always {
		f.target[at] = at + 1
	}
	return f.reachable()
}

// flow is a program whose jumps name instructions, not distances.
type flow struct {
	code   asm.Instructions
	target []int // of a jump: the index of an instruction; otherwise -1
	entry  map[string]int
}

var errNoTarget = errors.New("a jump leads out of the program")

func flowOf(code asm.Instructions) (*flow, error) {
	f := &flow{code: append(asm.Instructions(nil), code...), entry: make(map[string]int)}
	index := make(map[asm.RawInstructionOffset]int)
	offsets := offsetsOf(code)
	for i, offset := range offsets {
		index[offset] = i
		if symbol := code[i].Symbol(); symbol != "" {
			f.entry[symbol] = i
		}
	}
	for i := range code {
		target := -1
		if distance, ok := distanceOf(&code[i]); ok {
			if target, ok = index[offsets[i]+1+asm.RawInstructionOffset(distance)]; !ok {
				return nil, fmt.Errorf("instruction %d: %w", i, errNoTarget)
			}
		}
		f.target = append(f.target, target)
	}
	return f, nil
}

// offsetsOf returns the offset of each instruction. Loads of 64-bit constants take two places.
func offsetsOf(code asm.Instructions) []asm.RawInstructionOffset {
	offsets := make([]asm.RawInstructionOffset, len(code))
	for it := code.Iterate(); it.Next(); {
		offsets[it.Index] = it.Offset
	}
	return offsets
}

// isLong reports whether a jump has its distance in the constant.
func isLong(i *asm.Instruction) bool {
	return i.OpCode.Class() == asm.Jump32Class && i.OpCode.JumpOp() == asm.Ja
}

// distanceOf returns the distance of a jump from the next instruction.
func distanceOf(i *asm.Instruction) (distance int64, ok bool) {
	if !i.OpCode.Class().IsJump() {
		return 0, false
	}
	switch i.OpCode.JumpOp() {
	case asm.Call, asm.Exit, asm.InvalidJumpOp:
		return 0, false
	}
	if isLong(i) {
		return i.Constant, true
	}
	return int64(i.Offset), true
}

// next returns the instructions that may follow one.
func (f *flow) next(i int) (next []int) {
	code := &f.code[i]
	jumps := code.OpCode.Class().IsJump()
	op := code.OpCode.JumpOp()
	if code.IsFunctionReference() {
		if entry, ok := f.entry[code.Reference()]; ok {
			next = append(next, entry)
		}
	}
	if f.target[i] >= 0 {
		next = append(next, f.target[i])
	}
	if !jumps || (op != asm.Ja && op != asm.Exit) {
		next = append(next, i+1)
	}
	return next
}

// reachable returns the instructions that the first one leads to, with new distances.
func (f *flow) reachable() (asm.Instructions, error) {
	reached := make([]bool, len(f.code))
	for todo := []int{0}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i >= len(f.code) {
			return nil, errNoTarget
		}
		if !reached[i] {
			reached[i] = true
			todo = append(todo, f.next(i)...)
		}
	}
	var kept asm.Instructions
	var was []int
	now := make([]int, len(f.code))
	for i := range f.code {
		if reached[i] {
			now[i] = len(kept)
			was, kept = append(was, i), append(kept, f.code[i])
		}
	}
	offsets := offsetsOf(kept)
	for i := range kept {
		if target := f.target[was[i]]; target >= 0 {
			if err := setDistance(&kept[i], int64(offsets[now[target]])-int64(offsets[i])-1); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

func setDistance(i *asm.Instruction, distance int64) error {
	switch {
	case isLong(i):
		i.Constant = distance
	case distance != int64(int16(distance)):
		return fmt.Errorf("a jump over %d instructions: the limit is %d", distance, math.MaxInt16)
	default:
		i.Offset = int16(distance)
	}
	return nil
}
