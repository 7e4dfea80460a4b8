package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// tasks are the examples of examples/etcd, and what each language's program prints last.
var tasks = []struct{ name, golang, node, python string }{
	{"config", "blue, then green", `{"config/colour":"green"}`, "{b'config/colour': b'green'}"},
	{"presence", "online/alice DELETE", `[["online/alice"],"online/alice"]`, "b'online/alice' left"},
	{"lock", "5", "5", "b'5'"},
	{"election", "[alice bob]", `["alice","bob"]`, "b'bob' leads"},
	{"counter", "[1 2 3 4 5 6 7 8 9 10]", "[1,2,3,4,5,6,7,8,9,10]", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"},
}

// TestLanguages runs the examples of docs/languages.md with an etcd, a gateway and a keyspace in memory.
func TestLanguages(t *testing.T) {
	requireRoot(t)
	aetcd.prepare(t, aetcd.dir(t))
	node.prepare(t, node.dir(t))
	root := suite.Absolute(t, "../../..")
	golang := filepath.Join(t.TempDir(), "golang")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", golang, "./examples/etcd/go")
	build.Dir = root
	suite.Output(t, build)
	examples := filepath.Join(root, "examples/etcd")
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			enterNetwork(t)
			serve(t, k)
			for _, task := range tasks {
				prints(t, task.golang, exec.Command(golang, address, task.name))
				script := exec.Command("node", filepath.Join(examples, "node/etcd.js"), address, task.name)
				script.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(node.dir(t), "node_modules"))
				prints(t, task.node, script)
				prints(t, task.python, exec.Command(filepath.Join(aetcd.dir(t), "venv/bin/python"),
					filepath.Join(examples, "python", task.name+".py"), address))
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
