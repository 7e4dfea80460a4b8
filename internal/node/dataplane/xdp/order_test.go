package xdp

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

// On arm64 an atomic instruction is a barrier only if it returns the old value. No CPU on which tests run shows the
// difference: x86 keeps the order of loads and of stores whatever the program says, and so does QEMU on it.
func TestBarriersAreBarriers(t *testing.T) {
	spec, err := readObject(netcraqObject)
	if err != nil {
		t.Fatal(err)
	}
	lock := map[asm.AtomicOp]bool{asm.CmpXchg: true, asm.FetchAdd: true}
	for name, program := range spec.Programs {
		barriers, function := 0, ""
		for _, i := range program.Instructions {
			if symbol := i.Symbol(); symbol != "" {
				function = symbol
			}
			switch op := i.OpCode.AtomicOp(); {
			case op == asm.InvalidAtomic:
			case (op == asm.AddAtomic || op == asm.FetchAdd) && i.OpCode.Size() == asm.DWord: // a counter, of which no order is asked
			case op == asm.AddAtomic && function == "read_nearby_next": // another, of 32 bits
			case lock[op] && i.OpCode.Size() == asm.Word:
				barriers++
			default:
				t.Errorf("%s: %s has %v, which is no barrier: use those of lock.h", name, function, i)
			}
		}
		if name == "nq_export" && barriers != 2 {
			t.Errorf("%s has %d barriers, not one before and one after it copies", name, barriers)
		}
	}
}
