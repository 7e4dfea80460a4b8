package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

var aetcd = client{
	name: "aetcd", version: "1.0.0", own: true,
	failures: aetcdFailures,
	prepare:  func(t *testing.T, dir string) { preparePython(t, dir, "aetcd", "1.0.0") },
	runs: []run{
		pytest("auth", "tests/integration/test_auth.py"),
		pytest("rest", "tests", "--ignore", "tests/integration/test_auth.py"),
	},
}

var etcetra = client{
	name: "etcetra", version: "0.1.19", own: true, few: true,
	// Its tests read with serializable reads, which may be late at a gateway that is not active.
	without: memory,
	prepare: func(t *testing.T, dir string) {
		preparePython(t, dir, "etcetra", "0.1.19")
		suite.Add(t, "testdata/etcetra/conftest.py", filepath.Join(dir, "etcetra-0.1.19/tests"))
	},
	runs: []run{pytest("all", "tests")},
}

// preparePython installs a package and what its tests need, and unpacks its source, which has the tests.
func preparePython(t *testing.T, dir, name, version string) {
	requirements := suite.Absolute(t, filepath.Join("testdata", name, "requirements.txt"))
	prepared(t, dir, []string{version, read(t, requirements)}, func() {
		suite.Output(t, exec.Command("python3", "-m", "venv", filepath.Join(dir, "venv")))
		pip := filepath.Join(dir, "venv/bin/pip")
		suite.Output(t, exec.Command(pip, "install", "--no-deps", "-r", requirements))
		suite.Output(t, exec.Command(pip, "download", "--no-deps", "--no-binary", name, "-d", dir, name+"=="+version))
		suite.Output(t, exec.Command("tar", "-xzf", filepath.Join(dir, name+"-"+version+".tar.gz"), "-C", dir))
		if err := os.Symlink(name+"-"+version, filepath.Join(dir, "source")); err != nil {
			t.Fatal(err)
		}
	})
}

// pytest runs tests. Options of the projects that only measure coverage are left out.
func pytest(name string, tests ...string) run {
	return run{name, func(t *testing.T, dir string) suite.Results {
		report := filepath.Join(t.TempDir(), "report.xml")
		arguments := append([]string{"-o", "addopts=", "-p", "no:cacheprovider", "--junitxml", report}, tests...)
		path := "PATH=" + filepath.Dir(programs(t).etcdctl) + ":" + os.Getenv("PATH")
		said := command(t, filepath.Join(dir, "source"), []string{path}, filepath.Join(dir, "venv/bin/pytest"), arguments...)
		return reports(t, said, report)
	}}
}
