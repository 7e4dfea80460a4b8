package bench

import (
	"os"
	"strings"
	"testing"
)

// TestHostKnowsItsCompiler: what this machine says of the JIT is what the kernel's setting says, where it can be read.
func TestHostKnowsItsCompiler(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/core/bpf_jit_enable")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and the kernel's setting, which is there in the first network namespace only")
	}
	if want := strings.TrimSpace(string(text)) != "0"; ThisHost().JIT != want {
		t.Errorf("JIT %v, the kernel's setting says %v", ThisHost().JIT, want)
	}
}
