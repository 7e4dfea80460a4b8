package launch

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

// asVariable has the test's program run as etcd: by etcd's own main function, or by this package's.
const asVariable = "LAUNCH_TEST_AS"

func TestMain(m *testing.M) {
	args := append([]string{"etcd"}, os.Args[1:]...)
	switch os.Getenv(asVariable) {
	case "etcd":
		etcdmain.Main(args)
		os.Exit(0)
	case "launch":
		own := flag.NewFlagSet("chain", flag.ContinueOnError)
		value := own.String("chain-reads", "auto", "")
		Main(args, Addition{
			Flags: own,
			Configure: func(*embed.Config) error {
				if *value == "wrong" {
					return errors.New("a wrong value")
				}
				fmt.Println("configured:", *value)
				return nil
			},
			Started: func(e *embed.Etcd) { fmt.Println("started:", e.Server.MemberID()) },
			Stop:    func() { fmt.Println("stopped") },
		})
	}
	os.Exit(m.Run())
}

// program is the test's program as etcd.
func program(t *testing.T, as, dir string, env, args []string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Dir, c.Env = dir, slices.Concat(os.Environ(), env, []string{asVariable + "=" + as})
	return c
}

// freePort returns a port that nobody uses at present.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// outcome is what a started program has logged and printed, and how it ended after SIGTERM.
type outcome struct {
	config map[string]any // of the log line about the start
	lines  []string
	state  *os.ProcessState
}

func run(t *testing.T, as string, env, args []string) outcome {
	t.Helper()
	c := program(t, as, t.TempDir(), env, args)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var o outcome
	for lines := bufio.NewScanner(r); lines.Scan(); {
		o.lines = append(o.lines, lines.Text())
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch line["msg"] {
		case "starting an etcd server":
			o.config = line
		case "successfully notified init daemon":
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	_ = c.Wait() // the state tells it
	o.state = c.ProcessState
	return o
}

// TestSameConfiguration starts etcd by its own main function and by this package's, with the same flags, variables or file, and
// compares the whole configuration that etcd logs.
func TestSameConfiguration(t *testing.T) {
	dir := t.TempDir()
	client, peer := freePort(t), freePort(t)
	urls := []string{"--listen-client-urls", "http://" + client, "--advertise-client-urls", "http://" + client,
		"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
		"--initial-cluster", "m1=http://" + peer, "--name", "m1"}
	file := filepath.Join(dir, "etcd.yaml")
	text := fmt.Sprintf("name: m1\ndata-dir: %s\nlisten-client-urls: http://%s\nadvertise-client-urls: http://%s\n"+
		"listen-peer-urls: http://%s\ninitial-advertise-peer-urls: http://%s\ninitial-cluster: m1=http://%s\n"+
		"snapshot-count: 4321\nmax-txn-ops: 7\n", filepath.Join(dir, "fromfile"), client, client, peer, peer, peer)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		env, args []string
	}{
		{"flags", nil, append(slices.Clone(urls), "--data-dir", filepath.Join(dir, "flags"), "--cors", "http://a:1,http://b:2",
			"--max-concurrent-streams", "77", "--auto-compaction-retention=2", "--pre-vote=false", "--v", "--quota-backend-bytes=99999999",
			"--host-whitelist", "x,y", "--max-learners=2", "--max-snapshots", "3")},
		{"variables", []string{"ETCD_DATA_DIR=" + filepath.Join(dir, "variables"), "ETCD_SNAPSHOT_COUNT=99", "ETCD_HEARTBEAT_INTERVAL=50",
			"ETCD_ELECTION_TIMEOUT=900", "ETCD_VERSION=1", "ETCD_INITIAL_CLUSTER_TOKEN=tok"}, urls},
		{"file", []string{"ETCD_SNAPSHOT_COUNT=99"}, []string{"--config-file", file, "--max-txn-ops", "9"}},
		{"file by a variable", []string{"ETCD_CONFIG_FILE=" + file}, nil},
		{"default directory", nil, urls},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := run(t, "etcd", c.env, c.args)
			if err := os.RemoveAll(filepath.Join(dir, "fromfile")); err != nil {
				t.Fatal(err)
			}
			_ = os.RemoveAll(filepath.Join(dir, strings.ReplaceAll(c.name, " ", "")))
			got := run(t, "launch", c.env, append([]string{"--chain-reads=auto"}, c.args...))
			_ = os.RemoveAll(filepath.Join(dir, "fromfile"))
			delete(want.config, "ts")
			delete(got.config, "ts")
			if len(want.config) < 40 || !slices.Equal(slices.Sorted(maps.Keys(want.config)), slices.Sorted(maps.Keys(got.config))) {
				t.Fatalf("etcd logs %v\nthis %v\n%s", want.config, got.config, strings.Join(got.lines, "\n"))
			}
			for name, value := range want.config {
				if fmt.Sprint(value) != fmt.Sprint(got.config[name]) {
					t.Errorf("%s: etcd has %v, this %v", name, value, got.config[name])
				}
			}
			if a, b := messages(want.lines), messages(got.lines); !slices.Equal(a, b) {
				t.Errorf("etcd logs\n%q\nthis\n%q", a, b)
			}
			if want.state.String() != got.state.String() {
				t.Errorf("etcd: %v, this: %v", want.state, got.state)
			}
			for _, text := range []string{"configured: auto", "started: ", "stopped"} {
				if !slices.ContainsFunc(got.lines, func(l string) bool { return strings.HasPrefix(l, text) }) {
					t.Errorf("no line %q", text)
				}
			}
		})
	}
}

// messages lists the log's messages that come from etcdmain, without those that depend on the moment.
func messages(lines []string) (found []string) {
	for _, text := range lines {
		var line struct{ Caller, Msg, Level string }
		if json.Unmarshal([]byte(text), &line) != nil || line.Msg == "" {
			continue
		}
		package_, _, _ := strings.Cut(line.Caller, "/")
		if package_ == "etcdmain" || package_ == "launch" || package_ == "flags" {
			found = append(found, line.Level+" "+line.Msg)
		}
	}
	return found
}

// TestSameErrors compares the exit status and messages of starts that fail.
func TestSameErrors(t *testing.T) {
	dir := t.TempDir()
	for name, what := range map[string]string{"both": "member proxy", "proxy": "proxy"} {
		for _, sub := range strings.Fields(what) {
			if err := os.MkdirAll(filepath.Join(dir, name, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{
		{"--no-such-flag"},
		{"--enable-v2"}, // which newer releases do not have, as the next one
		{"--experimental-initial-corrupt-check"},
		{"word"},
		{"--listen-client-urls", "nonsense"},
		{"--listen-client-urls", "http://127.0.0.1:0"},
		{"--initial-cluster-state", "old"},
		{"--discovery-fallback", "proxy"},
		{"--config-file", "/nonexistent"},
		{"--heartbeat-interval", "500", "--election-timeout", "600"},
		{"--data-dir", filepath.Join(dir, "both")},
		{"--data-dir", filepath.Join(dir, "proxy")},
		{"--name", "m2", "--initial-cluster", "m1=http://127.0.0.1:9"},
		{"--version"},
		{"--help"},
	} {
		outcomes := make([]string, 2)
		for i, as := range []string{"etcd", "launch"} {
			c := program(t, as, t.TempDir(), nil, args)
			if as == "launch" {
				c.Args = append(c.Args[:1:1], append([]string{"--chain-reads=auto"}, args...)...)
			}
			out, _ := c.CombinedOutput() // the state tells it
			outcomes[i] = c.ProcessState.String() + " " + strings.Join(failures(string(out)), " ")
		}
		if outcomes[0] != outcomes[1] {
			t.Errorf("%q: etcd %s\nthis %s", args, outcomes[0], outcomes[1])
		}
	}
	out, err := program(t, "launch", dir, []string{"ETCD_CHAIN_READS=wrong"}, nil).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "a wrong value") {
		t.Errorf("a wrong value in the environment: %v, %s", err, out)
	}
}

var runtimeTexts = regexp.MustCompile(`"(ts|caller|stacktrace|data-dir)":"[^"]*",?`)

// failures lists the log lines about errors.
func failures(out string) (found []string) {
	for line := range strings.Lines(out) {
		if strings.Contains(line, `"level":"fatal"`) || strings.Contains(line, `"level":"warn"`) && strings.Contains(line, "error") ||
			strings.Contains(line, "etcd Version") || strings.Contains(line, "Human-readable name") {
			found = append(found, runtimeTexts.ReplaceAllString(line, ""))
		}
	}
	return found
}

// TestSameFlags compares the flags with those that etcd's help lists.
func TestSameFlags(t *testing.T) {
	out, err := program(t, "etcd", t.TempDir(), nil, []string{"--help"}).Output()
	if err != nil {
		t.Fatal(err)
	}
	c := newConfiguration(flag.NewFlagSet("", flag.ContinueOnError))
	listed := 0
	for _, match := range regexp.MustCompile(`(?m)^  --([a-z0-9-]+)`).FindAllStringSubmatch(string(out), -1) {
		gone := slices.Contains([]string{"discovery", "discovery-proxy"}, match[1]) // etcd has removed them, but not from its help
		if c.flags.Lookup(match[1]) == nil && !gone {
			t.Errorf("no flag --%s", match[1])
		}
		listed++
	}
	if listed < 90 {
		t.Errorf("etcd's help lists %d flags only", listed)
	}
}

// TestSameSources says when etcd changes what this package repeats. Compare the files, and write the new sums.
func TestSameSources(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3/etcdmain").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"config.go": "9ff275dff23bbf8a", "etcd.go": "93cfd2a520925c49", "main.go": "b6a00797ba5f03e1"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text))[:16]; got != want {
			t.Errorf("etcdmain/%s is %s, not %s: take its changes over", name, got, want)
		}
	}
}
