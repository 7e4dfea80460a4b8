package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

var node = client{
	name: "etcd3", version: "1.1.2",
	prepare: prepareNode,
	runs:    []run{mocha("auth"), mocha("test")},
}

// prepareNode installs the packages of the lock file beside the tests.
func prepareNode(t *testing.T, dir string) {
	prepareCopy(t, dir, "testdata/etcd3", func() {
		install := exec.Command("npm", "ci", "--ignore-scripts")
		install.Dir = dir
		suite.Output(t, install)
	})
}

func mocha(name string) run {
	return run{name, func(t *testing.T, dir string) suite.Results {
		report := filepath.Join(t.TempDir(), "report.xml")
		said := command(t, dir, nil, "node_modules/.bin/mocha", "--timeout", "30000", "--exit", "--reporter", "xunit",
			"--reporter-option", "output="+report, name)
		return reports(t, said, report)
	}}
}
