package bench

import (
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchOwnEtcdUsage: flags of one comparison are refused for the other.
func TestBenchOwnEtcdUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--gateways", "127.0.0.1:1"}, {"--etcd-endpoints", "127.0.0.1:1", "--members", "3"},
		{"--etcd-endpoints", "127.0.0.1:1", "--clients", "0"},
	} {
		if out, code, _ := clitest.Netcraq(append([]string{"bench", "gateway"}, args...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit status %d, %q", args, code, out)
		}
	}
}
