package xdp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/wire"
)

const inTimeNamespace = "NETCRAQ_TEST_TIME_NAMESPACE"

// TestClocksAgree: where there is no time namespace a process reads the clock that the data plane reads.
func TestClocksAgree(t *testing.T) {
	roottest.Need(t)
	if err := checkClock(); err != nil {
		t.Error(err)
	}
}

// TestTimeNamespaceIsRefused: a process whose boot clock is a day ahead would grant leases that last a day too long.
func TestTimeNamespaceIsRefused(t *testing.T) {
	roottest.Need(t)
	if os.Getenv(inTimeNamespace) != "" {
		loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), wire.Port)
		_, err := Open(Options{Node: loopback, Chain: chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 1, MaxSessions: 1}})
		fmt.Println(err)
		if !errors.Is(err, ErrClock) {
			t.Errorf("opened with %v", err)
		}
		return
	}
	for _, seconds := range []string{"86400", "-1"} {
		c := exec.Command("unshare", "--time", "--boottime", seconds, os.Args[0], "-test.run=^TestTimeNamespaceIsRefused$", "-test.v")
		c.Env = append(os.Environ(), inTimeNamespace+"=1")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "time namespace") {
			t.Errorf("a boot clock %s s ahead: %v\n%s", seconds, err, out)
		}
	}
}
