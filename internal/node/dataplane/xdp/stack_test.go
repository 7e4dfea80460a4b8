package xdp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// Limit of Linux 6.1 for all functions of a call chain together. Later kernels round frames up to 16 bytes only.
const (
	stackBytes  = 512
	frameUnit   = 32
	maxFrames   = 8
	anyFunction = "" // calls from no function yet
)

// function is the verifier's view of a function: the stack that it uses, and the functions that it calls.
type function struct {
	bytes int
	calls map[string]bool
}

// functionsOf finds the functions of a program: its instructions are followed by those of all that it calls.
func functionsOf(instructions asm.Instructions) map[string]*function {
	found := make(map[string]*function)
	var f *function
	frame := make(map[asm.Register]bool) // registers that hold the frame's end
	for _, i := range instructions {
		if name := i.Symbol(); name != anyFunction {
			f = &function{calls: make(map[string]bool)}
			found[name] = f
			clear(frame)
		}
		class := i.OpCode.Class()
		switch {
		case i.IsFunctionReference():
			f.calls[i.Reference()] = true
		case class.IsLoad() && i.Src == asm.R10, class.IsStore() && i.Dst == asm.R10:
			f.bytes = max(f.bytes, -int(i.Offset))
		case class.IsALU() && i.OpCode.ALUOp() == asm.Mov:
			frame[i.Dst] = i.Src == asm.R10
		case class.IsALU() && i.OpCode.ALUOp() == asm.Add && frame[i.Dst]:
			f.bytes = max(f.bytes, -int(i.Constant)) // the address of a variable
			frame[i.Dst] = false
		}
	}
	return found
}

// deepest is the chain of calls from a function that needs the most stack.
func deepest(functions map[string]*function, name string, frames int) (bytes int, path []string) {
	f := functions[name]
	own := (max(f.bytes, 1) + frameUnit - 1) / frameUnit * frameUnit
	if frames > maxFrames {
		return stackBytes + 1, nil
	}
	for callee := range f.calls {
		if b, p := deepest(functions, callee, frames+1); b > bytes {
			bytes, path = b, p
		}
	}
	return own + bytes, append([]string{fmt.Sprintf("%s (%d)", name, own)}, path...)
}

// Programs that fit the stack of the running kernel may not fit that of Linux 6.1, whose verifier alone says so.
func TestStackFitsOldestKernel(t *testing.T) {
	spec, err := readObject(netcraqObject)
	if err != nil {
		t.Fatal(err)
	}
	for name, program := range spec.Programs {
		bytes, path := deepest(functionsOf(program.Instructions), name, 1)
		t.Logf("%d bytes: %s", bytes, strings.Join(path, " > "))
		if bytes > stackBytes {
			t.Errorf("%s needs %d bytes of stack, Linux 6.1 has %d: %s", name, bytes, stackBytes, strings.Join(path, " > "))
		}
	}
}
