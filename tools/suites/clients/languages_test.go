package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// task is an example of examples/etcd, and what each language's program prints last.
type task struct {
	name                             string
	golang, node, python, java, rust string
	services                         bool // the clients for Java and Rust use services that a keyspace in memory lacks
}

var tasks = []task{
	{name: "config", golang: "blue, then green", node: `{"config/colour":"green"}`, python: "{b'config/colour': b'green'}",
		java: "{config/colour=green}", rust: `{"config/colour": "green"}`},
	{name: "presence", golang: "online/alice DELETE", node: `[["online/alice"],"online/alice"]`,
		python: "b'online/alice' left", java: "online/alice DELETE", rust: "online/alice left"},
	{name: "lock", golang: "5", node: "5", python: "b'5'", java: "5", rust: "5", services: true},
	{name: "election", golang: "[alice bob]", node: `["alice","bob"]`, python: "b'bob' leads", java: "[alice, bob]",
		rust: `["alice", "bob"]`, services: true},
	{name: "counter", golang: "[1 2 3 4 5 6 7 8 9 10]", node: "[1,2,3,4,5,6,7,8,9,10]",
		python: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", java: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
		rust: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"},
}

// examples are the programs of examples/etcd, compiled.
type examples struct{ source, out string }

// compileExamples compiles them. Maven and cargo compile what has changed.
func compileExamples(t *testing.T) examples {
	t.Helper()
	root := suite.Absolute(t, "../../..")
	e := examples{source: filepath.Join(root, "examples/etcd"), out: filepath.Join(programs(t).out, "examples")}
	compile := func(command ...string) {
		c := exec.Command(command[0], command[1:]...)
		c.Dir = root
		suite.Output(t, c)
	}
	compile("go", "build", "-buildvcs=false", "-o", filepath.Join(e.out, "golang"), "./examples/etcd/go")
	compile("mvn", "-q", "-B", "-f", filepath.Join(e.source, "java"), "compile", "dependency:copy-dependencies",
		"-Dtarget="+filepath.Join(e.out, "java"))
	compile("cargo", "build", "-q", "--manifest-path", filepath.Join(e.source, "rust/Cargo.toml"), "--target-dir",
		filepath.Join(e.out, "rust"))
	aetcd.prepare(t, aetcd.dir(t))
	node.prepare(t, node.dir(t))
	return e
}

// run runs a task in all languages.
func (e examples) run(t *testing.T, k kind, task task) {
	t.Helper()
	prints(t, task.golang, exec.Command(filepath.Join(e.out, "golang"), address, task.name))
	script := exec.Command("node", filepath.Join(e.source, "node/etcd.js"), address, task.name)
	script.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(node.dir(t), "node_modules"))
	prints(t, task.node, script)
	prints(t, task.python, exec.Command(filepath.Join(aetcd.dir(t), "venv/bin/python"),
		filepath.Join(e.source, "python", task.name+".py"), address))
	if k == memory && task.services {
		return
	}
	classes := filepath.Join(e.out, "java/classes") + ":" + filepath.Join(e.out, "java/dependency/*")
	prints(t, task.java, exec.Command("java", "-cp", classes, "Etcd", address, task.name))
	prints(t, task.rust, exec.Command(filepath.Join(e.out, "rust/debug/etcd"), address, task.name))
}

// TestLanguages runs the examples of docs/languages.md with an etcd, a gateway, and keyspaces in memory and on disks.
func TestLanguages(t *testing.T) {
	requireRoot(t)
	e := compileExamples(t)
	for _, k := range append([]kind{disks}, kinds...) {
		t.Run(string(k), func(t *testing.T) {
			enterNetwork(t)
			serve(t, k)
			for _, task := range tasks {
				e.run(t, k, task)
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
