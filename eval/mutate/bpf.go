package mutate

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// conditionals returns the mutants of a program: each conditional jump, always and never taken.
func conditionals(program string, code asm.Instructions) (all []Mutant) {
	var at Mutant
	for i := range code {
		if symbol := code[i].Symbol(); symbol != "" {
			at = Mutant{Program: program, Function: symbol}
		}
		if line, ok := code[i].Source().(*btf.Line); ok {
			at.File, at.Line, at.Text = inSource(line.FileName()), int(line.LineNumber()), strings.TrimSpace(line.Line())
		}
		if !isConditional(&code[i]) {
			continue
		}
		at.Instruction, at.Code = i, fmt.Sprint(code[i])
		for _, change := range []string{Always, Never} {
			at.Change = change
			all = append(all, at)
		}
	}
	return all
}

// inSource returns a path from the folder of the source on. The compiler may have been given an absolute one.
func inSource(path string) string {
	if i := strings.LastIndex(path, "/bpf/"); i >= 0 {
		return path[i+1:]
	}
	return path
}
