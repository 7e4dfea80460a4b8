package xdp

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/wire"
)

// readerRights are the capabilities that deploy/systemd/local-reads.conf gives to gateways.
var readerRights = []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_DAC_READ_SEARCH}

const (
	nobody = 65534
	// readerOf marks a process that reads the data plane that is pinned in this directory.
	readerOf = "NETCRAQ_TEST_READER_OF"
)

// TestNearbyRights reads a node's memory as a user without rights but those of the drop-in.
func TestNearbyRights(t *testing.T) {
	if pin := os.Getenv(readerOf); pin != "" {
		n, err := OpenNearby(pin)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if err := wantNearby(n, wire.Key{Hi: 1}, "v"); err != nil || os.Getuid() != nobody {
			t.Errorf("user %d: %v", os.Getuid(), err)
		}
		return
	}
	roottest.Need(t)
	o := testOptions(t)
	inNamespace(t, func() error {
		p, err := openLone(o)
		if err != nil {
			return err
		}
		defer p.Close()
		if answered, err := send(p, putMessage(1, "v")); err != nil || !answered {
			return fmt.Errorf("put: answered %v, %w", answered, err)
		}
		c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestNearbyRights$", "-test.v", "-test.count=1")
		c.Env = append(os.Environ(), readerOf+"="+o.Pin)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: readerRights}
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
