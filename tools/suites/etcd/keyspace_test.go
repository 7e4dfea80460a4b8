package etcd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

const ofKeyspaces = "../../../out/etcd-keyspace" // etcd's modules, as its repository has them

var keyspacePackages = []tested{
	{dir: "common", tags: "e2e", programs: true},
	{dir: "e2e", programs: true},
}

// keyspaceDifferences are tests that fail with a keyspace on disks, by reason.
var keyspaceDifferences = map[string][]string{
	"a keyspace has a quota of 16 MiB at least, and no alarm": {"TestAlarm", "TestAlarmlistOnMemberRestart"},
	"a gateway becomes a member when it starts":               {"TestMemberAdd", "TestMemberRemove"},
}

// TestKeyspaces runs etcd's tests with gateways of keyspaces on disks in the place of etcd. Tests that fail run again.
// Those that fail again must fail with plain etcd of the same release too.
func TestKeyspaces(t *testing.T) {
	only(t, "KEYSPACE")
	program := compiled(t, memberVersion)
	dir := suite.Absolute(t, ofKeyspaces)
	copyModules(t, dir, memberVersion, modules...)
	withoutCache(t, dir)
	ownTokens(t, dir)
	compilePrograms(t, dir, "", "etcdctl", "etcdutl") // plain etcd is compiled if a test fails
	suite.Build(t, "keyspace", filepath.Join(dir, "bin/etcd"))
	for _, p := range keyspacePackages {
		if tests := p.chosen(); tests != nil {
			t.Run(p.dir, func(t *testing.T) { p.tryKeyspaces(t, program, dir, tests) })
		}
	}
}

func (p *tested) tryKeyspaces(t *testing.T, netcraq, dir string, tests *regexp.Regexp) {
	program, names := p.compile(t, dir, tests)
	run := func(names []string, on func(*testing.T) []string) (r suite.Results) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) { r.Add(suite.Run(t, p.command(program, dir, name, on(t)))) })
		}
		return r
	}
	keyspace := func(t *testing.T) []string {
		return []string{variable + netcraq, "EXPECT_CHAIN=" + suite.StartCluster(t, netcraq)}
	}
	results := run(names, keyspace)
	results.Add(run(results.Failed(), keyspace))
	t.Logf("with keyspaces on disks: %v", results)
	if len(results.Failed()) == 0 {
		return
	}
	compilePrograms(t, dir, "", "server")
	plain := run(results.Failed(), func(*testing.T) []string { return nil }).Failed()
	judge(t, results, plain, func(name string) string {
		for reason, names := range keyspaceDifferences {
			if slices.Contains(names, name) {
				return reason
			}
		}
		return ""
	})
}

// judge fails the test for tests that fail only with the product, without a reason. plain are those that fail with
// etcd.
func judge(t *testing.T, results suite.Results, plain []string, reason func(name string) string) {
	t.Helper()
	for _, name := range results.Failed() {
		switch {
		case slices.Contains(plain, name):
			t.Logf("%s fails with plain etcd too", name)
		case reason(name) != "":
			t.Logf("%s fails with netcraq only: %s", name, reason(name))
		default:
			t.Errorf("%s fails with netcraq only\n%s", name, results.Output(name))
		}
	}
}

// only skips the test unless a variable of the environment asks for it.
func only(t *testing.T, variable string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("not asked for: " + variable + "=1")
	}
}
