package bench

import (
	"os"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Host describes the machine of a measurement.
type Host struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	JIT    bool   `json:"jit"` // of BPF programs; false without the right to load one
}

// ThisHost describes the machine the process runs on.
func ThisHost() Host {
	m := Host{CPU: "unknown", CPUs: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	m.JIT = compilesBPF()
	return m
}

// compilesBPF reports whether the kernel compiles BPF programs. It loads one: the kernel's setting is not readable in
// network namespaces, and kernels without an interpreter have none.
func compilesBPF() bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return false
	}
	size, err := info.JitedSize()
	return err == nil && size > 0
}
