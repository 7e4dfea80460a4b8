package etcd

import (
	"encoding/json"
	"os"
	"os/exec"
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
	{dir: "robustness", programs: true, quick: "^TestRobustnessExploratory/KubernetesLowTraffic/ClusterOfSize3$"},
	{dir: "integration"},
	{dir: "integration/clientv3"},
	{dir: "integration/clientv3/concurrency"},
	{dir: "integration/clientv3/connectivity"},
	{dir: "integration/clientv3/lease"},
	{dir: "integration/clientv3/watch"},
}

// memberDifferences are tests that fail with members that read through a chain, and why.
var memberDifferences = map[string]string{
	"TestAuthority": ofGRPC,
	"TestBalancerUnderServerStopInflightSerializableGetOnRestart": withoutMajority,
	"TestDetectKvOrderViolation":                                  withoutMajority,
	"TestDetectTxnOrderViolation":                                 withoutMajority,
	"TestDowngradeUpgrade2InClusterOf3":                           listed,
	"TestDropReadUnderNetworkPartition":                           noElection,
	"TestMixVersionsSnapshotByAddingMember":                       listed,
	"TestUnresolvableOrderViolation":                              withoutMajority,
	"TestV2DeprecationSnapshotMatches":                            listed,
	"TestV3HashRestart":                                           hash,
}

// Reasons that are long.
const (
	// docs/adr/0096 has more.
	withoutMajority = "the tests serve a member that restarts without a majority, which neither etcd's program nor ours does"
	noElection      = "a read that waits for the leader fails at an election; through the chain it waits for none, and has an answer"
	ofGRPC          = "the test reads what GODEBUG=http2debug=2 has grpc-go's server print, which is not in front of members"
	listed          = "plain etcd lists the records of members, which stand in their client URLs; a snapshot holds them"
	hash            = "the hash, which is for etcd's tests only, covers attributes that members write when they join"
)

// unlessKnown leaves out the tests that are known to fail.
func unlessKnown(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return memberDifferences[name] != "" })
}

// TestMembers runs etcd's tests with members that read through a chain in the place of etcd. Tests that fail run again.
// Those that fail again must fail with plain etcd of the same release too.
func TestMembers(t *testing.T) {
	only(t, "MEMBER")
	program := compiled(t, memberVersion)
	dir := suite.Absolute(t, ofMembers)
	prepareForMembers(t, dir)
	if slices.ContainsFunc(memberPackages, func(p tested) bool { return p.programs && p.chosen() != nil }) {
		compileMembers(t, dir)
	}
	var options []string
	for _, p := range memberPackages {
		if tests := p.chosen(); tests != nil {
			if !p.programs && options == nil {
				options = inProcess(t, dir) // it changes what the other packages are compiled with
			}
			p.options = options
			t.Run(p.dir, func(t *testing.T) { p.tryMembers(t, program, dir, tests) })
		}
	}
}

// prepareForMembers copies etcd's modules.
func prepareForMembers(t *testing.T, dir string) {
	t.Helper()
	copyModules(t, dir, memberVersion, modules...)
	withoutCache(t, dir)
	prepareRobustness(t, filepath.Join(dir, "tests/robustness"))
}

// withoutCache removes a test that needs a module that was not published with this release.
func withoutCache(t *testing.T, dir string) {
	t.Helper()
	suite.Remove(t, filepath.Join(dir, "tests/integration/cache_test.go"))
	suite.Edit(t, filepath.Join(dir, "tests/go.mod"), [2]string{"\t" + cacheModule + " => ../cache\n", ""},
		[2]string{"\t" + cacheModule + " " + memberVersion + "\n", ""})
}

// prepareRobustness has the robustness tests
//   - pause members, and do without the points in etcd's code that fail it, which the product does not have,
//   - stop members at the end, instead of killing them: then they say how many reads the chain answered,
//   - copy a data directory that has a socket,
//   - run at the speed of the machine.
func prepareRobustness(t *testing.T, dir string) {
	t.Helper()
	suite.Add(t, "testdata/member/pause.go", filepath.Join(dir, "failpoint"))
	suite.Edit(t, filepath.Join(dir, "failpoint/failpoint.go"),
		[2]string{"\tKillFailpoint, ", "\tpause{}, KillFailpoint, "})
	suite.Edit(t, filepath.Join(dir, "scenarios/scenarios.go"),
		[2]string{"\t\te2e.WithGoFailEnabled(true),\n\t\t// Set", "\t\t// Set"})
	suite.Edit(t, filepath.Join(dir, "main_test.go"), [2]string{"\t\tmember.Kill()\n", "\t\tmember.Stop()\n"})
	suite.Edit(t, filepath.Join(dir, "traffic/traffic.go"),
		[2]string{"QPS() < profile.KeyValue.MinimalQPS {", "QPS() == 0 {"})
	suite.Edit(t, filepath.Join(dir, "report/report.go"), [2]string{"import (\n", "import (\n\t\"os/exec\"\n"},
		[2]string{
			"os.CopyFS(serverReportPath, os.DirFS(dataPath))",
			`exec.Command("cp", "-rT", dataPath, serverReportPath).Run()`,
		}, [2]string{"\tfor server, dataPath :=", "\tos.MkdirAll(r.reportPath, 0o700)\n\tfor server, dataPath :="})
}

// The line with which etcd's framework makes a member's gRPC server, and what it becomes.
const (
	serves = "m.GRPCServer = v3rpc.Server(m.Server, tlscfg, m.GRPCServerRecorder.UnaryInterceptor(), m.GRPCServerOpts...)"
	fronts = "front, options := members.New(tlscfg != nil, m.GRPCServerOpts)\n\t\t" +
		"m.GRPCServer = v3rpc.Server(m.Server, tlscfg, m.GRPCServerRecorder.UnaryInterceptor(), options...)\n\t\t" +
		"members.Start(front, m.Server)"
)

// inProcess has the members that run in the process of the integration tests read through the chain of $EXPECT_CHAIN.
// It returns options of the compiler, which compiles testdata/member/members.go.in as a package of the product.
func inProcess(t *testing.T, dir string) []string {
	t.Helper()
	const product = "github.com/netcraq/netcraq"
	suite.Edit(t, filepath.Join(dir, "tests/framework/integration/cluster.go"), [2]string{serves, fronts},
		[2]string{"import (\n", "import (\n\t\"" + product + "/members\"\n"})
	sources := filepath.Join(dir, "tests")
	edit := exec.Command("go", "mod", "edit", "-require="+product+"@v0.0.0", "-replace="+product+"=../../..")
	edit.Dir = sources
	suite.Output(t, edit)
	sums, err := os.ReadFile("../../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	suite.Append(t, filepath.Join(sources, "go.sum"), sums)
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {
		suite.Absolute(t, "../../../members/members.go"): suite.Absolute(t, "testdata/member/members.go.in"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-mod=mod", "-overlay=" + overlay}
}

// compileMembers compiles etcd's programs.
func compileMembers(t *testing.T, dir string) {
	t.Helper()
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
				if memberDifferences[name] != "" {
					c.Args = append(c.Args, "-test.timeout=1m") // some wait for ever
				}
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
	through.Add(run(unlessKnown(through.Failed()), member...))
	t.Logf("with members that read through a chain: %v", through)
	if through.Hits() == 0 && os.Getenv("RUN") == "" {
		t.Error("no read went through the chain")
	}
	if len(through.Failed()) == 0 {
		return
	}
	if p.programs {
		compilePrograms(t, dir, "testdata/member/etcd", "server")
	}
	plain := run(unlessKnown(through.Failed())).Failed()
	judge(t, through, plain, func(name string) string { return memberDifferences[name] })
}
