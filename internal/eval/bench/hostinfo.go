package bench

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host describes the machine of a measurement.
type Host struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	JIT    bool   `json:"jit"`
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
	if text, err := os.ReadFile("/proc/sys/net/core/bpf_jit_enable"); err == nil {
		m.JIT = strings.TrimSpace(string(text)) != "0"
	}
	return m
}
