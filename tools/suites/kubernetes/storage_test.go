package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
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

// TestStorage runs Kubernetes' tests with etcd, through gateways that cache, and with keyspaces in memory.
func TestStorage(t *testing.T) {
	gateway := suite.Absolute(t, netcraq)
	if _, err := os.Stat(gateway); err != nil {
		t.Fatalf("%v: run make test-kubernetes-storage, which compiles it", err)
	}
	dir := suite.Absolute(t, filepath.Join(compiled, "apiserver"))
	prepare(t, dir)
	cluster := suite.StartChain(t, gateway)
	for _, name := range packages {
		program := filepath.Join(t.TempDir(), "tests")
		suite.Compile(t, dir, name, program)
		run := func(names []string, environment ...string) suite.Results {
			c := exec.Command(program, "-test.timeout=20m", "-test.run=^("+strings.Join(names, "|")+")$")
			c.Dir, c.Env = filepath.Join(dir, name), append(os.Environ(), environment...)
			return suite.Run(t, c)
		}
		memory := run(all, "NETCRAQ="+gateway, "NETCRAQ_MEMORY=1")
		through := run(all, "NETCRAQ="+gateway, "NETCRAQ_CHAIN="+cluster)
		t.Logf("%s: with etcd: %v; through gateways: %v; in memory: %v", name, run(all), through, memory)
		if through.Hits() == 0 {
			t.Error("the chain answered no read")
		}
		suite.Explain(t, through, nil, run)
		suite.Explain(t, memory, nil, run)
	}
}

// all names all tests.
var all = []string{".*"}

// prepare copies the API server's module and changes how its tests start an etcd.
func prepare(t *testing.T, dir string) {
	suite.Remove(t, dir)
	suite.Copy(t, suite.Module(t, requires, "k8s.io/apiserver"), dir)
	suite.Add(t, "testdata/gateway.go", filepath.Join(dir, testserver))
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
