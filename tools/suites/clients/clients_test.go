package clients

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// A client is a library, and tests of it.
type client struct {
	name, version string
	own           bool // the tests are the library's own; if not, they are this project's
	few           bool // the tests read too little for a gateway to place a key before they end
	without       kind // it does not run with servers of this kind; empty: it runs with all
	prepare       func(t *testing.T, dir string)
	runs          []run
	failures      []failure // what fails with a server of any kind
}

// A run is a command that runs tests. Each run has a store of its own: a gateway stops caching for good if a test
// enables authentication.
type run struct {
	name string
	do   func(t *testing.T, dir string) suite.Results
}

// A failure is why tests fail with servers of some kinds.
type failure struct {
	tests []string
	kinds []kind
	why   string
}

var all = []*client{&aetcd, &etcetra, &rust, &node, &java}

// TestPrepare downloads and compiles what the other tests need, which take less network and time afterwards.
func TestPrepare(t *testing.T) {
	for _, c := range all {
		t.Run(c.name, c.prepared)
	}
	t.Run("examples", func(t *testing.T) { prepareExamples(t) })
	t.Run("patroni", preparePatroni)
}

// TestClients runs all tests with servers of all kinds.
func TestClients(t *testing.T) {
	requireRoot(t)
	rows := make(map[string]row)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) { rows[c.name] = c.test(t) })
	}
	checkPage(t, rows)
}

// requireRoot skips a test without the rights of root, but not in CI.
func requireRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("needs root")
	default:
		t.Skip("needs root: make test-clients gives each server a network of its own")
	}
}

// A row is what came of a client's tests, for each kind of server.
type row map[kind]suite.Results

// dir is where a client's package and tests are.
func (c *client) dir(t *testing.T) string { return filepath.Join(programs(t).out, c.name) }

func (c *client) prepared(t *testing.T) {
	build := exec.Command("go", "build", "-buildvcs=false", "-o", programs(t).etcdctl, "go.etcd.io/etcd/etcdctl/v3")
	suite.Output(t, build)
	c.prepare(t, c.dir(t))
}

// test runs a client's tests with servers of all kinds, at the same time: most tests wait for something.
func (c *client) test(t *testing.T) row {
	c.prepared(t)
	results := make(row)
	var mu sync.Mutex
	t.Run("with", func(t *testing.T) {
		for _, k := range kinds {
			if k == c.without {
				continue
			}
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				r := c.with(t, k)
				mu.Lock()
				defer mu.Unlock()
				results[k] = r
			})
		}
	})
	for _, k := range kinds {
		if r, ran := results[k]; ran {
			c.explain(t, k, r)
		}
	}
	return results
}

// with runs a client's tests with a kind of server. Tests that fail without a known reason run once more, with a new
// store.
func (c *client) with(t *testing.T, k kind) (r suite.Results) {
	for _, one := range c.runs {
		found := c.twice(t, k, one)
		if len(c.unknown(k, found)) > 0 {
			found = c.twice(t, k, one)
		}
		r.Add(found)
	}
	t.Logf("%s: %v", c.name, r)
	if k == gateway && r.Hits() == 0 && !c.few {
		t.Error("the chain answered no read")
	}
	return r
}

// twice runs tests twice with the same store: in the second run keys are cached that the first one read.
func (c *client) twice(t *testing.T, k kind, one run) (r suite.Results) {
	t.Run(one.name, func(t *testing.T) {
		enterNetwork(t)
		serve(t, k)
		r = one.do(t, c.dir(t))
		r.Repeat(one.do(t, c.dir(t)))
		if k == gateway {
			r.Hit(hits(t))
		}
	})
	return r
}

// unknown lists the tests that failed without a known reason.
func (c *client) unknown(k kind, r suite.Results) []string {
	return slices.DeleteFunc(r.Failed(), func(name string) bool { return c.reason(k, name) != "" })
}

// reason is why a test fails with servers of a kind.
func (c *client) reason(k kind, test string) string {
	for _, f := range c.failures {
		if slices.Contains(f.tests, test) && slices.Contains(f.kinds, k) {
			return f.why
		}
	}
	return ""
}

// explain fails the test if another client test fails than those that are known to, or if one of those passes.
func (c *client) explain(t *testing.T, k kind, r suite.Results) {
	t.Helper()
	for _, name := range c.unknown(k, r) {
		t.Errorf("%s fails with %s:\n%s", name, k, r.Output(name))
	}
	failed := r.Failed()
	for _, f := range c.failures {
		for _, name := range f.tests {
			if slices.Contains(f.kinds, k) && !slices.Contains(failed, name) {
				t.Errorf("%s passes with %s: remove it from the failures", name, k)
			}
		}
	}
}

// limit is the time for one run of tests.
const limit = 10 * time.Minute

// command runs a program and returns its output. It may fail, as tests do.
func command(t *testing.T, dir string, environment []string, program string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, arguments...)
	c.WaitDelay = time.Second // after the end, for processes that it started
	c.Dir, c.Env = dir, append(os.Environ(), environment...)
	text, _ := c.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("%v took more than %v\n%s", c.Args, limit, text)
	}
	return string(text)
}

// reports reads reports in JUnit's format. Without any, what the program said is why.
func reports(t *testing.T, said, pattern string) suite.Results {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no report %s: %v\n%s", pattern, err, said)
	}
	r, err := suite.JUnit(files...)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return r
}

// prepared makes a directory with make, unless it was made from the same inputs before.
func prepared(t *testing.T, dir string, inputs []string, make func()) {
	t.Helper()
	stamp, key := filepath.Join(dir, ".prepared"), strings.Join(inputs, "\n")
	if text, err := os.ReadFile(stamp); err == nil && string(text) == key {
		return
	}
	suite.Remove(t, dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	make()
	if err := os.WriteFile(stamp, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
}

// prepareCopy makes a directory that has the files of another one and what make adds.
func prepareCopy(t *testing.T, dir, source string, make func()) {
	t.Helper()
	var inputs []string
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			inputs = append(inputs, path, read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	prepared(t, dir, inputs, func() {
		suite.Copy(t, source, dir)
		make()
	})
}

// read returns a file's text.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
