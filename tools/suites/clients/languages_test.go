package clients

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
	prepare func(t *testing.T, e examples) error
	command func(t *testing.T, e examples, task string) *exec.Cmd
	want    func(task) string
	needs   []string // programs that CI does not install, which takes minutes
}

var languages = map[string]language{
	"Go": {
		prepare: func(_ *testing.T, e examples) error {
			return e.compile("go", "build", "-buildvcs=false", "-o", filepath.Join(e.out, "golang"), "./examples/etcd/go")
		},
		command: func(_ *testing.T, e examples, task string) *exec.Cmd {
			return exec.Command(filepath.Join(e.out, "golang"), address, task)
		},
		want: func(k task) string { return k.golang },
	},
	"Python": {
		prepare: func(t *testing.T, _ examples) error { aetcd.prepare(t, aetcd.dir(t)); return nil },
		command: func(t *testing.T, e examples, task string) *exec.Cmd {
			return exec.Command(filepath.Join(aetcd.dir(t), "venv/bin/python"), filepath.Join(e.source, "python", task+".py"), address)
		},
		want: func(k task) string { return k.python },
	},
	"Node": {
		prepare: func(t *testing.T, _ examples) error { node.prepare(t, node.dir(t)); return nil },
		command: func(t *testing.T, e examples, task string) *exec.Cmd {
			script := exec.Command("node", filepath.Join(e.source, "node/etcd.js"), address, task)
			script.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(node.dir(t), "node_modules"))
			return script
		},
		want:  func(k task) string { return k.node },
		needs: []string{"npm"},
	},
	"Java": {
		prepare: func(_ *testing.T, e examples) error {
			return e.compile("mvn", "-q", "-B", "-f", filepath.Join(e.source, "java"), "compile", "dependency:copy-dependencies",
				"-Dtarget="+filepath.Join(e.out, "java"))
		},
		command: func(_ *testing.T, e examples, task string) *exec.Cmd {
			classes := filepath.Join(e.out, "java/classes") + ":" + filepath.Join(e.out, "java/dependency/*")
			// The first compiler alone, as each program runs for a moment.
			return exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", classes, "Etcd", address, task)
		},
		want:  func(k task) string { return k.java },
		needs: []string{"mvn", "javac"},
	},
	"Rust": {
		prepare: func(_ *testing.T, e examples) error {
			return e.compile("cargo", "build", "-q", "--manifest-path", filepath.Join(e.source, "rust/Cargo.toml"), "--target-dir",
				filepath.Join(e.out, "rust"))
		},
		command: func(_ *testing.T, e examples, task string) *exec.Cmd {
			return exec.Command(filepath.Join(e.out, "rust/debug/etcd"), address, task)
		},
		want:  func(k task) string { return k.rust },
		needs: []string{"cargo", "protoc"}, // etcd-client's build calls protoc
	},
}

// compile runs a compiler. Maven and cargo compile what has changed.
func (e examples) compile(command ...string) error {
	c := exec.Command(command[0], command[1:]...)
	c.Dir = e.root
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", c, err, said)
	}
	return nil
}

// left names a program that a language needs and this machine does not have; empty: it has all.
func (l *language) left() string {
	for _, program := range l.needs {
		if _, err := exec.LookPath(program); err != nil {
			return program
		}
	}
	return ""
}

// away finds what Maven and cargo print while they do not reach their libraries.
var away = regexp.MustCompile(`Could not transfer artifact|failed to download|download of config.json failed`)

// prepareExamples makes the programs of the languages that are tried. QUICK, as in CI, leaves those out that lack a program, or
// whose libraries are not within reach.
func prepareExamples(t *testing.T) (e examples, tried map[string]language) {
	t.Helper()
	root := suite.Absolute(t, "../../..")
	e = examples{root, filepath.Join(root, "examples/etcd"), filepath.Join(programs(t).out, "examples")}
	tried = maps.Clone(languages)
	quick := os.Getenv("QUICK") != ""
	for name, l := range languages {
		if lacks := l.left(); quick && lacks != "" {
			t.Logf("%s is left out: there is no %s", name, lacks)
			delete(tried, name)
			continue
		}
		begun := time.Now()
		switch err := l.prepare(t, e); {
		case err == nil:
			t.Logf("%s is compiled, in %.1f s", name, time.Since(begun).Seconds())
		case quick && away.MatchString(err.Error()):
			t.Logf("%s is left out: its libraries are not within reach: %v", name, err)
			delete(tried, name)
		default:
			t.Fatal(err)
		}
	}
	t.Logf("languages: %v", slices.Sorted(maps.Keys(tried)))
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
