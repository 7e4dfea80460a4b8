package clients

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

var java = client{
	name: "jetcd", version: "0.8.6",
	prepare: prepareJava,
	runs:    []run{maven("auth", "AuthTest"), maven("test", "!AuthTest")},
}

// prepareJava compiles the tests and has Maven download what it needs to run them, without running any.
func prepareJava(t *testing.T, dir string) {
	prepareCopy(t, dir, "testdata/jetcd", func() {
		c := exec.Command("mvn", "-q", "-B", "test", "-Dtest=None", "-Dsurefire.failIfNoSpecifiedTests=false")
		c.Dir = dir
		suite.Output(t, c)
	})
}

func maven(name, tests string) run {
	return run{name, func(t *testing.T, dir string) suite.Results {
		found := t.TempDir()
		said := command(t, dir, nil, "mvn", "-o", "-q", "-B", "surefire:test", "-Dtest="+tests, "-Dreports="+found,
			"-DtempDir="+strings.ReplaceAll(t.Name(), "/", "-")) // others run at the same time
		return reports(t, said, filepath.Join(found, "TEST-*.xml"))
	}}
}
