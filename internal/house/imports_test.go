package house

import (
	"slices"
	"strings"
	"testing"
)

// floors are the packages from the ground up. A package imports from the floors below its own only; its tests may also
// use its neighbours.
var floors = [][]string{
	{"wire", "spec", "api/agentv1", "api/controllerv1", "internal/priority", "internal/wiregen", "internal/house", "internal/usl", "internal/owned"},
	{"internal/chain", "internal/history", "internal/security", "internal/keyring", "internal/baseline", "internal/cpushare"},
	{"internal/topology", "internal/baseline/netchain", "internal/baseline/published", "internal/peer/etcd"},
	{"internal/dataplane", "internal/dataplane/frame", "internal/scale", "internal/baseline/control"},
	{"internal/reconfig", "internal/dataplane/conformance", "internal/dataplane/planetest"},
	{"internal/dataplane/soft", "internal/dataplane/xdp", "internal/reconfig/message", "client", "client/follow", "internal/baseline/soft", "internal/baseline/fabric", "internal/baseline/client"},
	{"client/connect", "client/telemetry", "internal/sim", "internal/agent", "internal/controller/store", "internal/snapshot", "internal/plot", "internal/console", "internal/drill", "internal/baseline/sim", "internal/baseline/xdp", "internal/study"},
	{"internal/controller", "internal/lab", "internal/bench", "internal/baseline/failover"},
	{"internal/peer"},
	{"internal/trial", "internal/txn", "internal/figure"},
	{"internal/figure/papers"},
	{"cmd/netcraq"},
}

// reserved are packages of others that few of the project's own may import.
var reserved = []struct {
	prefix string
	by     []string
	why    string
}{
	{"github.com/cilium/ebpf", []string{"internal/dataplane/xdp", "internal/baseline/xdp", "internal/bench", "internal/lab"}, "BPF belongs to the XDP planes, the load generator and the fault injector"},
	{"github.com/vishvananda/", []string{"internal/dataplane/xdp", "internal/baseline/xdp", "internal/bench", "internal/lab"}, "links and network namespaces belong to the XDP plane, the benchmarks and the lab"},
	{"google.golang.org/grpc", []string{"api/agentv1", "api/controllerv1", "internal/security", "internal/agent", "internal/controller", "internal/snapshot", "internal/console", "client/follow", "client/connect", "cmd/netcraq"}, "the data plane's own protocol needs no RPC"},
	{"github.com/spf13/", []string{"cmd/netcraq"}, "flags belong to the commands"},
	{"go.etcd.io/", []string{"internal/controller/store", "internal/study", "internal/peer"}, "etcd belongs to the controller's store, and to those that compare with it"},
	{"k8s.io/", nil, "Kubernetes comes with a package of its own"},
}

// floorOf returns the floor of a package, and -1 for one that has none.
func floorOf(pkg string) int {
	return slices.IndexFunc(floors, func(floor []string) bool { return slices.Contains(floor, pkg) })
}

func TestImportsRunDownwards(t *testing.T) {
	for _, s := range sources(t) {
		here := floorOf(s.dir())
		if here < 0 {
			t.Errorf("%s: package %s has no floor: give it one in this test, and a line in ARCHITECTURE.md", s.path, s.dir())
			continue
		}
		for _, imported := range s.imports() {
			pkg, ours := strings.CutPrefix(imported, module)
			if !ours || pkg == s.dir() { // a test of the package's outside imports the package itself
				continue
			}
			there := floorOf(pkg)
			if there > here || there == here && !s.isTest() {
				t.Errorf("%s imports %s: imports run downwards, from floor %d to one below, and this is floor %d", s.path, pkg, here, there)
			}
		}
	}
}

func TestImportsOfOthersStayWhereTheyBelong(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			for _, rule := range reserved {
				if strings.HasPrefix(imported, rule.prefix) && !slices.Contains(rule.by, s.dir()) {
					t.Errorf("%s imports %s: %s", s.path, imported, rule.why)
				}
			}
		}
	}
}
