package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

const (
	netcraq  = "../../../bin/netcraq"
	compiled = "../../../out/kubernetes"
	requires = "../../kubernetes" // the module that names Kubernetes' version

	testserver = "pkg/storage/etcd3/testserver"
)

// packages have the tests that use pkg/storage/testing.
var packages = []string{"pkg/storage/etcd3", "pkg/storage/cacher"}

// runner runs tests of a package by their names, with more variables in the environment.
type runner func(names []string, environment ...string) suite.Results

// TestStorage runs Kubernetes' tests with etcd, through gateways that cache, and with keyspaces in memory.
func TestStorage(t *testing.T) {
	each(t, func(t *testing.T, cluster string, run runner) {
		memory := run(all, "NETCRAQ_MEMORY=1")
		through := run(all, "NETCRAQ_CHAIN="+cluster)
		t.Logf("with etcd: %v; through gateways: %v; in memory: %v", run(all, plain), through, memory)
		if through.Hits() == 0 {
			t.Error("the chain answered no read")
		}
		again := func(names []string, environment ...string) suite.Results {
			return run(names, append(environment, plain)...)
		}
		suite.Explain(t, through, nil, again)
		suite.Explain(t, memory, nil, again)
	})
}

// TestMembers runs Kubernetes' tests with etcd's members that read through a chain. Those that fail must fail with
// etcd too.
func TestMembers(t *testing.T) {
	each(t, func(t *testing.T, cluster string, run runner) {
		members := run(all, "NETCRAQ_MEMBER=1", "NETCRAQ_CHAIN="+cluster)
		t.Logf("with members: %v", members)
		if members.Hits() == 0 {
			t.Error("the chain answered no read")
		}
		failed := members.Failed()
		if len(failed) == 0 {
			return
		}
		with := run(failed, plain).Failed()
		for _, name := range failed {
			switch {
			case slices.Contains(with, name):
				t.Logf("%s fails with etcd too", name)
			case memberDifferences[name] != "":
				t.Logf("%s fails with members only: %s", name, memberDifferences[name])
			default:
				t.Errorf("%s fails with members only\n%s", name, members.Output(name))
			}
		}
	})
}

// memberDifferences are tests that fail with members that read through a chain, and why.
var memberDifferences = map[string]string{
	"TestLists": "it expects that the watch cache stays behind after a consistent list, but progress goes on (docs/adr/0070)",
}

// plain has the tests use their etcd.
const plain = "NETCRAQ="

// each compiles the tests of each package, and tries them beside one chain.
func each(t *testing.T, try func(t *testing.T, cluster string, run runner)) {
	product := suite.Absolute(t, netcraq)
	if _, err := os.Stat(product); err != nil {
		t.Fatalf("%v: run make test-kubernetes-storage, which compiles it", err)
	}
	dir := suite.Absolute(t, filepath.Join(compiled, "apiserver"))
	prepare(t, dir)
	cluster := suite.StartChain(t, product)
	for _, name := range packages {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "tests")
			suite.Compile(t, dir, name, program)
			try(t, cluster, func(names []string, environment ...string) suite.Results {
				c := exec.Command(program, "-test.timeout=20m", "-test.run=^("+strings.Join(names, "|")+")$")
				c.Dir, c.Env = filepath.Join(dir, name), append(append(os.Environ(), "NETCRAQ="+product), environment...)
				return suite.Run(t, c)
			})
		})
	}
}

// all names all tests.
var all = []string{".*"}

// prepare copies the API server's module and changes how its tests start an etcd.
func prepare(t *testing.T, dir string) {
	suite.Remove(t, dir)
	suite.Copy(t, suite.Module(t, requires, "k8s.io/apiserver"), dir)
	for _, file := range []string{"testdata/gateway.go", "testdata/member.go"} {
		suite.Add(t, file, filepath.Join(dir, testserver))
	}
	suite.Edit(t, filepath.Join(dir, testserver, "test_server.go"),
		[2]string{"embed.StartEtcd(cfg)", "embed.StartEtcd(identified(cfg))"},
		[2]string{
			"	tlsConfig, err :=",
			"	gateway := startGateway(t, cfg, e.Server.Cluster().ClientURLs())\n\ttlsConfig, err :=",
		},
		[2]string{"Endpoints:   e.Server.Cluster().ClientURLs()", "Endpoints: gateway.urls"},
		[2]string{"grpc.WithBlock()", "grpc.WithBlock(), gateway.option()"},
	)
}
