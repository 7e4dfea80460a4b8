package node

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestXDPWithoutRights: a node that may not load programs says so at once, although no controller answers.
func TestXDPWithoutRights(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here, and with it its lack of rights
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		err := unix.Capset(&header, &none[0])
		if err == nil {
			_, _, err = clitest.Execute(ctx, newNodeCommand(), "--name", "n1", "--addr", "192.0.2.1:4411", "--plane", "xdp",
				"--join", "127.0.0.1:1")
		}
		ended <- err
	}()
	err := <-ended
	for _, want := range []string{"CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN", "run as root", "--plane soft"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if ctx.Err() != nil {
		t.Error("it waited for a controller")
	}
}
