package clients

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// task is an example of examples/etcd, and what each language's program prints last.
type task struct {
	name                             string
	golang, node, python, java, rust string
}

var tasks = []task{
	{name: "config", golang: "blue, then green", node: `{"config/colour":"green"}`, python: "{b'config/colour': b'green'}",
		java: "{config/colour=green}", rust: `{"config/colour": "green"}`},
	{name: "presence", golang: "online/alice DELETE", node: `[["online/alice"],"online/alice"]`,
		python: "b'online/alice' left", java: "online/alice DELETE", rust: "online/alice left"},
	{name: "lock", golang: "5", node: "5", python: "b'5'", java: "5", rust: "5"},
	{name: "election", golang: "[alice bob]", node: `["alice","bob"]`, python: "b'bob' leads", java: "[alice, bob]",
		rust: `["alice", "bob"]`},
	{name: "counter", golang: "[1 2 3 4 5 6 7 8 9 10]", node: "[1,2,3,4,5,6,7,8,9,10]",
		python: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", java: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
		rust: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"},
}

// examples are the programs of examples/etcd, compiled.
type examples struct{ root, source, out string }

// A language has a client of etcd, and programs that use it.
type language struct {
	prepare func(t *testing.T, e examples)
	command func(t *testing.T, e examples, task string) *exec.Cmd
	want    func(task) string
	slow    bool   // compiler and libraries take longer than CI has
	needs   string // a program that CI does not install, which takes minutes; empty: none
}

var languages = map[string]language{
	"Go": {
		prepare: func(t *testing.T, e examples) {
			e.compile(t, "go", "build", "-buildvcs=false", "-o", filepath.Join(e.out, "golang"), "./examples/etcd/go")
		},
		command: func(_ *testing.T, e examples, task string) *exec.Cmd {
			return exec.Command(filepath.Join(e.out, "golang"), address, task)
		},
		want: func(k task) string { return k.golang },
	},
	"Python": {
		prepare: func(t *testing.T, _ examples) { aetcd.prepare(t, aetcd.dir(t)) },
		command: func(t *testing.T, e examples, task string) *exec.Cmd {
			return exec.Command(filepath.Join(aetcd.dir(t), "venv/bin/python"), filepath.Join(e.source, "python", task+".py"), address)
		},
		want: func(k task) string { return k.python },
	},
	"Node": {
		prepare: func(t *testing.T, _ examples) { node.prepare(t, node.dir(t)) },
		command: func(t *testing.T, e examples, task string) *exec.Cmd {
			script := exec.Command("node", filepath.Join(e.source, "node/etcd.js"), address, task)
			script.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(node.dir(t), "node_modules"))
			return script
		},
		want:  func(k task) string { return k.node },
		needs: "npm",
	},
	"Java": {
		prepare: func(t *testing.T, e examples) {
			e.compile(t, "mvn", "-q", "-B", "-f", filepath.Join(e.source, "java"), "compile", "dependency:copy-dependencies",
				"-Dtarget="+filepath.Join(e.out, "java"))
		},
		command: func(_ *testing.T, e examples, task string) *exec.Cmd {
			classes := filepath.Join(e.out, "java/classes") + ":" + filepath.Join(e.out, "java/dependency/*")
			return exec.Command("java", "-cp", classes, "Etcd", address, task)
		},
		want: func(k task) string { return k.java }, slow: true,
	},
	"Rust": {
		prepare: func(t *testing.T, e examples) {
			e.compile(t, "cargo", "build", "-q", "--manifest-path", filepath.Join(e.source, "rust/Cargo.toml"), "--target-dir",
				filepath.Join(e.out, "rust"))
		},
		command: func(_ *testing.T, e examples, task string) *exec.Cmd {
			return exec.Command(filepath.Join(e.out, "rust/debug/etcd"), address, task)
		},
		want: func(k task) string { return k.rust }, slow: true,
	},
}

// compile runs a compiler. Maven and cargo compile what has changed.
func (e examples) compile(t *testing.T, command ...string) {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir = e.root
	suite.Output(t, c)
}

// left reports whether QUICK, as in CI, leaves a language out.
func (l *language) left() bool {
	_, err := exec.LookPath(l.needs)
	return l.slow || l.needs != "" && err != nil
}

// prepareExamples makes the programs of the languages that are tried.
func prepareExamples(t *testing.T) (e examples, tried map[string]language) {
	t.Helper()
	root := suite.Absolute(t, "../../..")
	e = examples{root, filepath.Join(root, "examples/etcd"), filepath.Join(programs(t).out, "examples")}
	tried = maps.Clone(languages)
	if os.Getenv("QUICK") != "" {
		maps.DeleteFunc(tried, func(_ string, l language) bool { return l.left() })
	}
	t.Logf("languages: %v", slices.Sorted(maps.Keys(tried)))
	for _, l := range tried {
		l.prepare(t, e)
	}
	return e, tried
}

// TestLanguages runs the examples of docs/languages.md with an etcd, a gateway, and keyspaces in memory and on disks.
func TestLanguages(t *testing.T) {
	requireRoot(t)
	e, tried := prepareExamples(t)
	for _, k := range append([]kind{disks}, kinds...) {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel() // most tasks wait
			enterNetwork(t)
			serve(t, k)
			for _, task := range tasks {
				for _, l := range tried {
					prints(t, l.want(task), l.command(t, e, task.name))
				}
			}
		})
	}
}

// prints checks the last line that a program prints.
func prints(t *testing.T, want string, c *exec.Cmd) {
	t.Helper()
	out, err := c.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || lines[len(lines)-1] != want {
		t.Errorf("%v: %v: %q was wanted, not %s", c.Args, err, want, out)
	}
}
