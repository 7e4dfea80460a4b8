package xdp

import (
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
)

// A refusal by the verifier has the error number of a missing privilege, and another reason.
func TestVerifierRefusalIsExplained(t *testing.T) {
	roottest.Need(t)
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{
		"nq_wrong": {Name: "nq_wrong", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Return()}},
	}}
	_, err := ebpf.NewCollection(spec)
	if err == nil {
		t.Fatal("the verifier takes a program that returns what it never set")
	}
	text := explainLoad(err, "").Error()
	for _, want := range []string{"verifier", kernelRelease(), "nq_wrong", "R0 !read_ok", "--plane soft"} {
		if !strings.Contains(text, want) {
			t.Errorf("the error does not say %q: %s", want, text)
		}
	}
	if strings.Contains(text, "root") {
		t.Errorf("the error talks of root: %s", text)
	}
	text = explainNearby(err, "").Error()
	for _, want := range []string{kernelRelease(), "nq_wrong", "R0 !read_ok"} {
		if !strings.Contains(text, want) {
			t.Errorf("the error of a reader does not say %q: %s", want, text)
		}
	}
	if strings.ContainsAny(text, "\n") || strings.Contains(text, "root") || strings.Contains(text, "--plane") {
		t.Errorf("the error of a reader is %s", text)
	}
}

func TestMissingPrivilegeIsExplained(t *testing.T) {
	roottest.Need(t)
	o := chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: 4}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here, as it has no capabilities any more
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			result <- err
			return
		}
		out, err := load(o, constantsOf(conformance.Me, o), "", 0)
		if err == nil {
			out.close()
		}
		result <- err
	}()
	err := <-result
	if err == nil {
		t.Fatal("a thread without capabilities loads the program")
	}
	if text := err.Error(); !strings.Contains(text, "run as root") || strings.Contains(text, "verifier of") {
		t.Errorf("the error is %s", text)
	}
}
