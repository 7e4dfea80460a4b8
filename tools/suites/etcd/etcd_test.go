package etcd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

const (
	netcraq = "../../../bin/netcraq"
	copied  = "../../../out/etcd" // etcd's modules, as its repository has them

	version = "v3.6.8"
	project = "go.etcd.io/etcd/"
)

// modules are directories of etcd's repository, and names of modules below its own.
var modules = []string{"api", "client/pkg", "client/v3", "etcdctl", "etcdutl", "pkg", "server", "tests"}

// programs are the directories of etcd's programs, and plainEtcd is the name of the server beside the script.
var programs = []string{"server", "etcdctl", "etcdutl"}

const plainEtcd = "etcd.real"

// A tested is a package of tests.
type tested struct {
	dir, tags string
	programs  bool     // it starts programs, not packages of etcd
	quick     string   // the tests that CI runs, as a regular expression; empty: none
	parts     string   // the chosen parts of a test, as go test's -run has them after its first slash; empty: all
	options   []string // of the compiler
}

var packages = []tested{
	{dir: "common", tags: "e2e,cluster_proxy", programs: true},
	{dir: "e2e", tags: "cluster_proxy", programs: true},
	{dir: "integration", tags: "cluster_proxy"},
	{dir: "integration/clientv3", tags: "cluster_proxy"},
	{dir: "integration/clientv3/lease", tags: "cluster_proxy", quick: quickLeases},
	{dir: "integration/clientv3/concurrency", tags: "cluster_proxy", quick: "."},
}

// quickLeases are short tests, in some of which the chain answers many reads.
const quickLeases = "^Test(Lease(DeleteRangeContendDel|Grant|KeepAliveOnce|Leases|NotFoundError|Revoke|TimeToLive)|" +
	"Leasing(ConcurrentPut|DeleteNonOwner|DeleteOwner|DeleteRange.*|Do|Get.*|Interval|OverwriteResponse|OwnerDelete.*|" +
	"OwnerPut.*|PrevKey|Reconnect.*|RevGet|TxnAtomicCache|TxnNonOwnerPut|TxnOwnerDelete.*|TxnOwnerGet.*|" +
	"TxnRandIfThenOrElse|TxnRangeCmp))$"

// Reasons of more than one test.
const (
	watches   = "the test expects the watches of etcd's own proxy"
	between   = "two reads have different revisions if a key is placed between"
	errorText = "the test accepts a broken connection by the text of its error, which differs"
)

// differences are tests that fail through gateways that cache, and why.
var differences = map[string]string{
	"TestAuthTestCacheReload":                 "calls wait for a session's lifetime, and the test's tokens last less",
	"TestKVPutError":                          "the guard of a write takes a part of etcd's limit of requests",
	"TestLeasingPutInvalidateExisting":        between,
	"TestLeasingPutInvalidateNew":             between,
	"TestMaintenanceHashKV":                   "gateways write their own keys between the members' hashes",
	"TestRevisionMonotonicWithLeaderRestarts": errorText,
	"TestRevisionMonotonicWithRestarts":       errorText,
	"TestV3CorruptAlarm":                      "the test opens a member's data without leases, and gateways' sessions have leases",
	"TestV3StorageQuotaAPI":                   "etcd does not count puts in nested transactions against its quota",
	"TestV3WatchCancellation":                 watches,
	"TestV3WatchCloseCancelRace":              watches,
}

// variable names the program that tests start. etcd's tests pass a variable on to programs only if its name begins so.
const (
	variable = "EXPECT_NETCRAQ="
	writes   = "EXPECT_WRITES=1" // as suite.Writes, for programs
)

// place has the integration tests wait, after the first read of a key, until the chain answers its reads.
const place = "NETCRAQ_PLACE=1"

// chosen returns the tests of a package that $PACKAGE and $RUN, a regular expression, or $QUICK choose; nil: none.
func (p *tested) chosen() *regexp.Regexp {
	if only := os.Getenv("PACKAGE"); only != "" && only != p.dir {
		return nil
	}
	run := os.Getenv("RUN")
	if os.Getenv("QUICK") != "" {
		if run = p.quick; run == "" {
			return nil
		}
	}
	tests, parts, _ := strings.Cut(run, "/")
	p.parts = parts
	return regexp.MustCompile(tests)
}

// compiled returns the product's program, and keeps others from etcd's ports. The test is skipped if it is a quick one,
// and etcd's tests cannot be had.
func compiled(t *testing.T, version string) string {
	t.Helper()
	suite.Alone(t)
	program := suite.Absolute(t, netcraq)
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run make test-etcd, which compiles it", err)
	}
	if os.Getenv("QUICK") != "" {
		if err := suite.Available(".", project+"tests/v3@"+version); err != nil {
			t.Skip("etcd's tests cannot be downloaded: ", err)
		}
	}
	return program
}

// TestSuites runs etcd's tests through gateways that cache. Tests that fail run again; of those that fail again,
// [suite.Explain] finds the reason.
func TestSuites(t *testing.T) {
	if os.Getenv("MEMBER")+os.Getenv("KEYSPACE") != "" {
		t.Skip("members or keyspaces are tried")
	}
	gateway := compiled(t, version)
	dir := suite.Absolute(t, copied)
	prepare(t, dir)
	if slices.ContainsFunc(packages, func(p tested) bool { return p.programs && p.chosen() != nil }) {
		compilePrograms(t, dir, "testdata/etcd", programs...)
	}
	for _, p := range packages {
		if tests := p.chosen(); tests != nil {
			t.Run(p.dir, func(t *testing.T) { p.test(t, gateway, dir, tests) })
		}
	}
}

func (p *tested) test(t *testing.T, gateway, dir string, tests *regexp.Regexp) {
	program, names := p.compile(t, dir, tests)
	run := func(names []string, environment ...string) (r suite.Results) {
		for _, name := range names {
			r.Add(p.run(t, gateway, program, dir, name, environment))
		}
		return r
	}
	through := run(names, variable+gateway, place)
	through.Add(run(through.Failed(), variable+gateway, place))
	t.Logf("through gateways: %v", through)
	suite.Explain(t, through, differences, run)
}

// compile compiles the tests of a package, and lists those that are chosen.
func (p *tested) compile(t *testing.T, dir string, tests *regexp.Regexp) (program string, names []string) {
	t.Helper()
	program, sources := filepath.Join(t.TempDir(), "tests"), filepath.Join(dir, "tests")
	options := append([]string{"-tags=" + p.tags}, p.options...)
	if err := suite.Download(sources, p.dir, options...); err != nil && os.Getenv("QUICK") != "" {
		t.Skip("etcd's tests need modules that cannot be downloaded: ", err)
	}
	suite.Compile(t, sources, p.dir, program, options...)
	list := exec.Command(program, "-test.list", ".")
	list.Dir = filepath.Join(dir, "tests", p.dir)
	return program, slices.DeleteFunc(strings.Fields(string(suite.Output(t, list))), func(name string) bool {
		return !strings.HasPrefix(name, "Test") || !tests.MatchString(name)
	})
}

// command is the command of one test.
func (p *tested) command(program, dir, name string, environment []string) *exec.Cmd {
	c := exec.Command(program, "-test.timeout=9m", "-test.run", strings.TrimSuffix("^"+name+"$/"+p.parts, "/"))
	if p.programs {
		c.Args = append(c.Args, "-bin-dir", filepath.Join(dir, "bin"))
	}
	c.Dir = filepath.Join(dir, "tests", p.dir)
	c.Env = append(os.Environ(), environment...)
	if slices.Contains(environment, suite.Writes) {
		c.Env = append(c.Env, writes)
	}
	return c
}

// run runs one test. Each has its own chain: clusters of different tests have the same identity.
func (p *tested) run(t *testing.T, gateway, program, dir, name string, environment []string) (r suite.Results) {
	t.Run(name, func(t *testing.T) {
		c := p.command(program, dir, name, environment)
		if slices.Contains(environment, variable+gateway) {
			c.Env = append(c.Env, "EXPECT_CHAIN="+suite.StartChain(t, gateway))
		}
		r = suite.Run(t, c)
	})
	return r
}

// begins is a statement with which etcd's framework begins to make a cluster of programs.
const begins = "\tif cfg.BasePort == 0 {"

// prepare copies etcd's modules, and has its tests start gateways.
func prepare(t *testing.T, dir string) {
	copyModules(t, dir, version, modules...)
	for _, file := range []string{"testdata/cluster_proxy.go", "testdata/placer.go"} {
		suite.Add(t, file, filepath.Join(dir, "tests/framework/integration"))
	}
	suite.Edit(t, filepath.Join(dir, "tests/framework/integration/cluster.go"),
		[2]string{"return newClientV3(cfg)", "return newClientOf(m.MaxRequestBytes, cfg)"})
	ownTokens(t, dir)
}

// ownTokens has each cluster of programs have its own token.
func ownTokens(t *testing.T, dir string) {
	t.Helper()
	suite.Add(t, "testdata/token.go", filepath.Join(dir, "tests/framework/e2e"))
	suite.Edit(t, filepath.Join(dir, "tests/framework/e2e/cluster.go"),
		[2]string{begins, "\ttoken := &cfg.ServerConfig.InitialClusterToken\n\t*token = newToken(*token)\n" + begins})
}

// copyModules replaces a directory by modules of etcd.
func copyModules(t *testing.T, dir, version string, names ...string) {
	t.Helper()
	suite.Remove(t, dir)
	for _, name := range names {
		suite.Copy(t, suite.Module(t, ".", project+strings.TrimSuffix(name, "/v3")+"/v3@"+version), filepath.Join(dir, name))
	}
}

// compilePrograms compiles etcd's programs, with a script, unless its name is empty, in the place of etcd.
func compilePrograms(t *testing.T, dir, script string, sources ...string) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		suite.Build(t, filepath.Join(dir, source), filepath.Join(bin, strings.Replace(source, "server", plainEtcd, 1)))
	}
	if script == "" {
		return
	}
	suite.Add(t, script, bin)
	if err := os.Chmod(filepath.Join(bin, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
}
