package etcd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

const (
	ofMembers   = "../../../out/etcd-member"  // etcd's modules, as its repository has them
	lastRelease = "../../../out/etcd-release" // those of the release before

	memberVersion = "v3.7.3" // as in the product's go.mod
	cacheModule   = "go.etcd.io/etcd/cache/v3"
)

var memberPackages = []tested{
	{
		dir: "common", tags: "e2e", programs: true,
		quick: "^Test(KVPut|KVGet|KVDelete|TxnSucc|LeaseGrantAndList|AuthEnable|MemberList)$",
	},
	{dir: "e2e", programs: true},
	{dir: "robustness", programs: true},
}

// TestMembers runs etcd's tests with members that read through a chain in the place of etcd. Tests that fail run again.
// Those that fail again must fail with plain etcd of the same release too.
func TestMembers(t *testing.T) {
	if os.Getenv("MEMBER") == "" {
		t.Skip("gateways are tried")
	}
	program := compiled(t, memberVersion)
	dir := suite.Absolute(t, ofMembers)
	prepareForMembers(t, dir)
	for _, p := range memberPackages {
		if tests := p.chosen(); tests != nil {
			t.Run(p.dir, func(t *testing.T) { p.tryMembers(t, program, dir, tests) })
		}
	}
}

// prepareForMembers copies etcd's modules, and compiles its programs.
func prepareForMembers(t *testing.T, dir string) {
	t.Helper()
	copyModules(t, dir, memberVersion, modules...)
	// One test needs a module that was not published with this release.
	suite.Remove(t, filepath.Join(dir, "tests/integration/cache_test.go"))
	suite.Edit(t, filepath.Join(dir, "tests/go.mod"), [2]string{"\t" + cacheModule + " => ../cache\n", ""},
		[2]string{"\t" + cacheModule + " " + memberVersion + "\n", ""})
	if os.Getenv("QUICK") != "" {
		compilePrograms(t, dir, "testdata/member/etcd", "etcdctl") // plain etcd is compiled if a test fails
		return
	}
	compilePrograms(t, dir, "testdata/member/etcd", programs...)
	old := suite.Absolute(t, lastRelease)
	copyModules(t, old, version, "api", "client/pkg", "client/v3", "pkg", "server")
	suite.Build(t, filepath.Join(old, "server"), filepath.Join(dir, "bin/etcd-last-release"))
}

func (p *tested) tryMembers(t *testing.T, netcraq, dir string, tests *regexp.Regexp) {
	program, names := p.compile(t, dir, tests)
	chain := suite.StartChain(t, netcraq)
	run := func(names []string, environment ...string) (r suite.Results) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				c := p.command(program, dir, name, environment)
				c.Env = append(c.Env, "EXPECT_DEBUG=1") // it prints what members log, with the number of reads
				if os.Getenv("QUICK") != "" {
					c.Env = append(c.Env, "E2E_TEST_MINIMAL=true")
				}
				r.Add(suite.Run(t, c))
			})
		}
		return r
	}
	member := []string{variable + netcraq, "EXPECT_CHAIN=" + chain}
	through := run(names, member...)
	through.Add(run(through.Failed(), member...))
	t.Logf("with members that read through a chain: %v", through)
	if through.Hits() == 0 && os.Getenv("RUN") == "" {
		t.Error("no read went through the chain")
	}
	if len(through.Failed()) == 0 {
		return
	}
	compilePrograms(t, dir, "testdata/member/etcd", "server")
	plain := run(through.Failed()).Failed()
	for _, name := range through.Failed() {
		if slices.Contains(plain, name) {
			t.Logf("%s fails with plain etcd too", name)
		} else {
			t.Errorf("%s fails with members only\n%s", name, through.Output(name))
		}
	}
}
