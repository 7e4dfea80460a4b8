package suite

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What comes of a test.
const (
	passed  = "PASS"
	skipped = "SKIP"
	failed  = "FAIL"
)

// Results are what came of tests.
type Results struct {
	status map[string]string // of each test of the top level
	output map[string]string
	hits   int // reads that the chain answered
}

func newResults() Results {
	return Results{status: make(map[string]string), output: make(map[string]string)}
}

// Run runs a program of tests.
func Run(t *testing.T, c *exec.Cmd) Results {
	t.Helper()
	c.Args = append(c.Args, "-test.v")
	text, err := c.CombinedOutput()
	r := parse(string(text))
	t.Log(r) // a run takes hours, and may not come to its end
	if err != nil && !slices.Contains(slices.Collect(maps.Values(r.status)), failed) {
		t.Errorf("%v: %v\n%s", c, err, text)
	}
	return r
}

var (
	begun = regexp.MustCompile(`^=== RUN +([^/\s]+)$`)
	ended = regexp.MustCompile(`^--- (PASS|SKIP|FAIL): (\S+)`)
	// reads is what clients of gateways and members in the process print, and what a member logs when it is stopped.
	reads = regexp.MustCompile(`(?:gateway|member): (\d+) reads from the chain|"fast-reads":(\d+)`)
)

// parse reads the output of tests. A test that did not end has failed.
func parse(text string) Results {
	r := newResults()
	var name string
	output := make(map[string]*strings.Builder) // some tests print more than 100,000 lines
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if found := begun.FindStringSubmatch(line); found != nil {
			name = found[1]
			r.status[name] = failed
		}
		if found := ended.FindStringSubmatch(line); found != nil {
			r.status[found[2]] = found[1]
		}
		for _, found := range reads.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.Atoi(found[1] + found[2]) // digits: one of them is empty
			r.hits += n
		}
		if output[name] == nil {
			output[name] = new(strings.Builder)
		}
		output[name].WriteString(line + "\n")
	}
	for name, b := range output {
		r.output[name] = b.String()
	}
	return r
}

// Writes has etcd written to by another client, before and while the tests run.
const Writes = "NETCRAQ_WRITES=1"

// Explain fails the test for tests that fail through gateways only. Tests that failed run again without gateways, and
// then with an etcd that another client writes to, as gateways that cache do: tests that expect certain revisions fail
// then. Other known differences have their reasons.
func Explain(
	t *testing.T, through Results, known map[string]string, run func(names []string, environment ...string) Results,
) {
	t.Helper()
	names := slices.DeleteFunc(through.Failed(), func(name string) bool { return known[name] != "" })
	for _, name := range through.Failed() {
		if known[name] != "" {
			t.Logf("%s fails through gateways: %s", name, known[name])
		}
	}
	if len(names) == 0 {
		return
	}
	plain, written := run(names).Failed(), run(names, Writes).Failed()
	for _, name := range names {
		switch {
		case slices.Contains(plain, name):
			t.Logf("%s fails without gateways too", name)
		case slices.Contains(written, name):
			t.Logf("%s fails without gateways when another client writes to etcd", name)
		default:
			t.Errorf("%s fails through gateways only\n%s", name, through.output[name])
		}
	}
}

// Hits returns how many reads the chain answered.
func (r Results) Hits() int { return r.hits }

// Hit counts reads that the chain answered.
func (r *Results) Hit(n int) { r.hits += n }

// Failed lists the tests that failed.
func (r Results) Failed() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.status)) {
		if r.status[name] == failed {
			names = append(names, name)
		}
	}
	return names
}

// Passes counts the tests that passed.
func (r Results) Passes() int { return r.count(passed) }

// Skips counts the tests that were skipped.
func (r Results) Skips() int { return r.count(skipped) }

func (r Results) count(status string) (n int) {
	for _, s := range r.status {
		if s == status {
			n++
		}
	}
	return n
}

// Output returns what a test printed.
func (r Results) Output(name string) string { return r.output[name] }

// Repeat adds the results of a repetition: a test that failed before stays failed.
func (r *Results) Repeat(other Results) {
	for name, status := range other.status {
		if r.status[name] != failed {
			r.status[name], r.output[name] = status, other.output[name]
		}
	}
}

// Add adds the results of other tests, or newer ones of the same tests.
func (r *Results) Add(other Results) {
	if r.status == nil {
		*r = newResults()
	}
	maps.Copy(r.status, other.status)
	maps.Copy(r.output, other.output)
	r.hits += other.hits
}

func (r Results) String() string {
	return fmt.Sprintf("%d pass, %d skip, %d fail; %d reads from the chain",
		r.count(passed), r.count(skipped), r.count(failed), r.hits)
}
