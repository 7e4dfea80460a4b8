package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// The product's packages, and the wings beside it.
const (
	node     = "internal/node"
	cluster  = "internal/cluster"
	gateway  = "internal/gateway"
	member   = "internal/member"
	keyspace = "internal/keyspace"
	platform = "internal/platform"
	verify   = "internal/verify"
	eval     = "eval" // a module of its own
	commands = "internal/cli"
)

var product = []string{"wire", "api", "client", node, cluster, gateway, member, keyspace, platform}

// wing is a folder and the other folders that its packages may import. Packages in one folder may import each other.
// The rule of the longest folder that holds a package applies.
type wing struct {
	dir string
	may []string
}

var wings = []wing{
	{"wire", nil},
	{"spec", nil},
	{"p4", nil},
	{"api", nil},
	{platform, nil},
	{"internal/tools", nil},
	{"internal/tools/p4c", []string{"internal/tools", "p4"}},
	{"internal/tools/kernels", []string{"internal/tools", node + "/dataplane/xdp/verified"}},
	{"tools", nil},
	{"tools/package", []string{commands}},
	{node + "/chain", []string{"wire"}},
	{node + "/dataplane/p4", []string{"wire", "p4", node + "/chain", node + "/dataplane", platform}},
	{node + "/dataplane/p4/p4runtime", []string{"p4", "api", node + "/dataplane", platform}},
	{node + "/dataplane", []string{"wire", node + "/chain", node + "/pods", platform}},
	{cluster + "/topology", []string{"wire", node + "/chain", platform + "/trust"}},
	{cluster + "/reconfig", []string{"wire", "api", node + "/chain", node + "/dataplane", cluster + "/topology"}},
	{"client", []string{"wire", "api", cluster + "/topology", cluster + "/keyring", cluster + "/security", platform + "/callerror"}},
	{"clients", []string{"client", commands + "/clitest"}},
	{"examples/etcd", nil},
	{"examples", []string{"client", commands + "/clitest"}},
	{gateway + "/core", nil},
	{gateway + "/placement", nil},
	{member + "/core", nil},
	{keyspace + "/core", nil},
	{node + "/pods", []string{platform}},
	{"internal/cni", []string{node + "/pods", platform}},
	{gateway, product},
	{member, product},
	{keyspace, product},
	{node, product},
	{cluster, product},
	{verify, append(slices.Clone(product), "spec")},
	{eval, append(slices.Clone(product), "spec", "p4", verify)},
	{commands, product},
	{commands + "/lab", append(slices.Clone(product), verify, commands)},
	{commands + "/clitest", append(slices.Clone(product), verify, commands, "internal/cni")},
	{"cmd", append(slices.Clone(product), commands, "internal/cni")},
	{eval + "/cli", append(slices.Clone(product), eval, verify, commands)},
	{eval + "/cmd", []string{eval, commands}},
}

// inTests are the folders that tests in any folder may import.
var inTests = append(slices.Clone(product), "spec", verify)

// reserved are packages of others that only some folders may import.
var reserved = []struct {
	prefix string
	by     []string
	why    string
}{
	{"github.com/cilium/ebpf", []string{node + "/dataplane/xdp", verify, eval + "/baseline/xdp", eval + "/bench",
		eval + "/mutate", "internal/cni", platform + "/bpflink"}, "BPF belongs to the XDP plane, the baselines, the load " +
		"generator, the fault injector, mutants and pods' ends"},
	{"github.com/vishvananda/", []string{node + "/dataplane/xdp", node + "/dataplane/p4", verify, eval + "/baseline/xdp",
		eval + "/bench", "internal/cni"}, "links and network namespaces belong to the planes below sockets, the CNI plugin, " +
		"the benchmarks and the lab"},
	{"github.com/containernetworking/", []string{"internal/cni", "cmd/netcraq-cni"}, "CNI belongs to its plugin"},
	{"google.golang.org/grpc", []string{"api", node + "/agent", node + "/dataplane/p4/p4runtime", cluster, gateway, member, "client/follow", "client/connect",
		"clients", keyspace, platform + "/callerror", verify + "/kubernetes", verify + "/etcdtest", commands,
		eval + "/leases", eval + "/peer",
		"tools/suites"}, "the data plane's own protocol needs no RPC"},
	{"github.com/spf13/", []string{commands, "cmd", eval + "/cli", "tools/package"}, "flags belong to the commands"},
	{"go.etcd.io/", []string{"examples/etcd", cluster + "/controller/store", gateway + "/engine", gateway + "/locks",
		gateway + "/proxy", gateway + "/local", gateway + "/calltime",
		gateway + "/memory", gateway + "/progress", gateway + "/serve", member, commands + "/member",
		keyspace + "/journal", verify + "/gatewaycheck", verify + "/etcdtest",
		verify + "/kubernetes",
		eval + "/etcdstudy", eval + "/etcdload", eval + "/etcdgateway", eval + "/etcdkeyspace", eval + "/etcdmember", eval + "/etcdstale", eval + "/leases", eval + "/lists",
		eval + "/lists", eval + "/peer", "tools/suites", "tools/kubernetes"}, "etcd belongs to the controller's store, to the gateway " +
		"and its checks, to members, to the lab's Kubernetes, and to the systems compared with it"},
	{"gonum.org/", []string{eval}, "statistics and pictures belong to the evaluation"},
	{"github.com/HdrHistogram/", []string{eval}, "statistics belong to the evaluation"},
	{"github.com/go-zookeeper/", []string{eval + "/peer"}, "ZooKeeper is compared with the product"},
	{"github.com/redis/", []string{eval + "/peer"}, "Redis is compared with the product"},
	{"k8s.io/", []string{"tools/chart"}, "Kubernetes comes with a package of its own"},
	{"helm.sh/", []string{"tools/chart"}, "Helm renders the chart, in a module of its own"},
	{"github.com/goreleaser/nfpm/", []string{"tools/package"}, "packages are made in a module of their own"},
	{"github.com/google/go-containerregistry/", []string{"tools/image"}, "images are packed in a module of their own"},
}

// in reports whether a package lies in a folder. Every package lies in "".
func in(pkg, dir string) bool {
	return dir == "" || pkg == dir || strings.HasPrefix(pkg, dir+"/")
}

func inAny(pkg string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return in(pkg, dir) })
}

// wingOf returns the longest folder of the table that holds a package.
func wingOf(pkg string) (found wing, ok bool) {
	for _, w := range wings {
		if in(pkg, w.dir) && len(w.dir) > len(found.dir) {
			found, ok = w, true
		}
	}
	return found, ok
}

func TestImportsStayInTheirWings(t *testing.T) {
	for _, s := range sources(t) {
		here, ok := wingOf(s.dir())
		if !ok {
			t.Errorf("%s: no wing holds package %s: move it, or add its folder to this test and to ARCHITECTURE.md", s.path,
				s.dir())
			continue
		}
		may := append([]string{here.dir}, here.may...)
		if s.isTest() {
			may = append(may, inTests...)
		}
		for _, imported := range s.imports() {
			pkg, ours := strings.CutPrefix(imported, module)
			if ours && !inAny(pkg, may) {
				t.Errorf("%s imports %s: packages in %s may import %v only", s.path, pkg, here.dir, may)
			}
		}
	}
}

// TestProductNeedsNeitherProofNorEvaluation checks the direct and indirect imports of the product's program.
func TestProductNeedsNeitherProofNorEvaluation(t *testing.T) {
	imports := make(map[string][]string)
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, imported := range s.imports() {
			if pkg, ours := strings.CutPrefix(imported, module); ours {
				imports[s.dir()] = append(imports[s.dir()], pkg)
			}
		}
	}
	const program = "cmd/netcraq"
	seen := map[string]bool{program: true}
	for next := []string{program}; len(next) > 0; next = next[1:] {
		for _, pkg := range imports[next[0]] {
			if inAny(pkg, []string{verify, eval}) {
				t.Errorf("%s needs %s, which imports %s", program, next[0], pkg)
			}
			if !seen[pkg] {
				seen[pkg] = true
				next = append(next, pkg)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("%s needs %d packages only: is it the product?", program, len(seen))
	}
}

func TestImportsOfOthersStayWhereTheyBelong(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			for _, rule := range reserved {
				if strings.HasPrefix(imported, rule.prefix) && !inAny(s.dir(), rule.by) {
					t.Errorf("%s imports %s: %s", s.path, imported, rule.why)
				}
			}
		}
	}
}

// Pure packages compute: time, sender and everything random are arguments.
var (
	pure = []string{node + "/chain", cluster + "/reconfig", gateway + "/core", gateway + "/placement", member + "/core",
		keyspace + "/core"}
	impure = []string{"net", "os", "os/exec", "io", "io/fs", "sync", "sync/atomic", "syscall", "log", "log/slog",
		"context", "math/rand", "math/rand/v2", "crypto/rand"}
	fromClocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}
)

func TestPurePackagesArePure(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !inAny(s.dir(), pure) {
			continue
		}
		for _, imported := range s.imports() {
			if slices.Contains(impure, imported) {
				t.Errorf("%s imports %s: the package is pure", s.path, imported)
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s:%d: starts a goroutine: the package is pure", s.path, s.line(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(fromClocks, n.Sel.Name) {
					t.Errorf("%s:%d: reads a clock: the package is pure", s.path, s.line(n.Pos()))
				}
			}
			return true
		})
	}
}
