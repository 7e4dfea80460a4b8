package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

const (
	patroniNodes = 3
	restPort     = 8008 // of the first node
	sqlPort      = 5432
	second       = "127.0.0.1:22380" // another gateway
	// acknowledged is how many writes a node has to acknowledge before the next fault.
	acknowledged = 100
	patroniTime  = 3 * time.Minute // for any step; a failover takes Patroni's ttl of 20 s and more
)

// TestPatroni runs Patroni with three PostgreSQL servers and synchronous replication: two primaries are killed, and
// between them a gateway. No acknowledged write may be lost, and primaries follow one another.
func TestPatroni(t *testing.T) {
	requireRoot(t)
	preparePatroni(t)
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			enterNetwork(t)
			hosts, kill := servePatroni(t, k)
			failovers(t, startPatroni(t, hosts), kill)
			if k == gateway {
				t.Logf("%d reads from the chain", hits(t))
			}
		})
	}
}

// preparePatroni installs Patroni where any user may read it: PostgreSQL does not run as root.
func preparePatroni(t *testing.T) {
	dir := patroniDir(t)
	requirements := suite.Absolute(t, "testdata/patroni/requirements.txt")
	prepared(t, dir, []string{read(t, requirements)}, func() {
		suite.Output(t, exec.Command("/usr/bin/python3", "-m", "pip", "install", "--no-deps", "-r", requirements,
			"--target", filepath.Join(dir, "lib")))
	})
}

func patroniDir(t *testing.T) string { return filepath.Join(programs(t).out, "patroni") }

// servePatroni starts the store, at one address or at two. kill ends the first of two gateways, which Patroni uses. It
// is nil if there are no gateways.
func servePatroni(t *testing.T, k kind) (hosts []string, kill func()) {
	if k == plain {
		serve(t, k)
		return []string{address}, nil
	}
	options := []string{"--memory"} // the first gateway is the active one
	if k == gateway {
		startEtcd(t, behind)
		options = []string{"--etcd-endpoints", behind, "--pin", ""}
	}
	cluster := suite.StartChain(t, programs(t).netcraq)
	kill = startGateway(t, second, cluster, options...)
	startGateway(t, address, cluster, options...)
	return []string{second, address}, kill
}

// A patroni is a cluster of Patroni's.
type patroni struct {
	dir, lib string
	who      *syscall.Credential
	nodes    [patroniNodes]*patroniNode

	mu     sync.Mutex
	writes map[int][]write // by node
}

type patroniNode struct {
	Index, REST, Port int
	Hosts, Dir, Bin   string

	process *exec.Cmd
	ended   chan struct{}
	log     *os.File
}

// A write was acknowledged by a node, at a time of the machine's monotonic clock.
type write struct{ number, end int64 }

func startPatroni(t *testing.T, hosts []string) *patroni {
	t.Helper()
	dir, err := os.MkdirTemp("", "patroni")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &patroni{dir: dir, lib: filepath.Join(dir, "lib"), who: unprivileged(t), writes: make(map[int][]write)}
	suite.Copy(t, filepath.Join(patroniDir(t), "lib"), p.lib)
	suite.Copy(t, "testdata/patroni", filepath.Join(dir, "programs"))
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatal("PostgreSQL is missing: run scripts/peers.sh postgresql")
	}
	for i := range p.nodes {
		n := &patroniNode{
			Index: i, REST: restPort + i, Port: sqlPort + i, Hosts: `"` + strings.Join(hosts, `", "`) + `"`,
			Dir: filepath.Join(dir, fmt.Sprint("node", i)), Bin: found[len(found)-1],
		}
		p.nodes[i] = n
		p.writeConfig(t, n)
		p.start(t, n)
	}
	return p
}

// unprivileged is the user that PostgreSQL runs as.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid) // both are numbers on Linux
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Fatal("no user but root")
	return nil
}

func (p *patroni) writeConfig(t *testing.T, n *patroniNode) {
	t.Helper()
	if err := os.Mkdir(n.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(n.Dir, int(p.who.Uid), int(p.who.Gid)); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := template.Must(template.ParseFiles("testdata/patroni/node.yml")).Execute(&text, n); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("node%d.yml", n.Index)), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// python prepares a program that runs as the unprivileged user.
func (p *patroni) python(arguments ...string) *exec.Cmd {
	c := exec.Command("/usr/bin/python3", arguments...)
	c.Dir = p.dir
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + p.dir, "LC_ALL=C.UTF-8", "PYTHONPATH=" + p.lib,
		"PYTHONDONTWRITEBYTECODE=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.who, Setpgid: true}
	return c
}

func (p *patroni) start(t *testing.T, n *patroniNode) {
	t.Helper()
	name := filepath.Join(p.dir, fmt.Sprintf("node%d.log", n.Index))
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	n.log, n.process, n.ended = log, p.python("-m", "patroni", fmt.Sprintf("node%d.yml", n.Index)), make(chan struct{})
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		t.Fatal(err)
	}
	process, ended := n.process, n.ended
	go func() { _ = process.Wait(); close(ended) }() // killed
	t.Cleanup(func() {
		n.kill(t)
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", log.Name(), text[max(0, len(text)-8192):])
		}
	})
}

// kill kills Patroni, then PostgreSQL, whose other processes end when the first one is gone.
func (n *patroniNode) kill(t *testing.T) {
	t.Helper()
	_ = n.process.Process.Kill() // both may have ended
	<-n.ended
	text, err := os.ReadFile(filepath.Join(n.Dir, "data/postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if pid, err := strconv.Atoi(first); err == nil && strings.HasPrefix(commandLine(pid), n.Bin) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// commandLine is that of a process; empty: there is none.
func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(text)
}

// failovers kills the primary, a gateway, and the next primary, and checks the acknowledged writes.
func failovers(t *testing.T, p *patroni, killGateway func()) {
	p.await(t, "the cluster has a synchronous standby", p.whole)
	p.sql(t, "create table written (n bigint primary key)")
	stop := p.startWriters(t)
	first := p.awaitWrites(t, -1)
	t.Logf("node%d is the primary", first)

	p.nodes[first].kill(t)
	next := p.awaitWrites(t, first)
	t.Logf("node%d took over", next)
	p.start(t, p.nodes[first])
	p.await(t, "the killed node is a standby again", p.whole)

	if killGateway != nil {
		p.withoutGateway(t, killGateway)
		if now := p.awaitWrites(t, -1); now != next {
			t.Errorf("node%d took over when a gateway was killed", now)
		}
	}

	p.nodes[next].kill(t)
	last := p.awaitWrites(t, next)
	t.Logf("node%d took over", last)
	stop()
	p.check(t, []int{first, next, last})
}

// withoutGateway kills the gateway that all nodes use, and waits until they have used the other one for a whole ttl.
func (p *patroni) withoutGateway(t *testing.T, kill func()) {
	t.Helper()
	killed := time.Now()
	kill()
	p.await(t, "all nodes have used the store after the gateway was killed", func() bool { return p.seenSince(killed) })
	for _, n := range p.nodes {
		if !strings.Contains(read(t, n.log.Name()), "Selected new etcd server http://"+address) {
			t.Errorf("node%d did not use the gateway that was killed", n.Index)
		}
	}
}

// await waits for a condition.
func (p *patroni) await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	polls, late := time.NewTicker(50*time.Millisecond), time.After(patroniTime)
	defer polls.Stop()
	for !condition() {
		select {
		case <-polls.C:
		case <-late:
			t.Fatalf("after %v not yet: %s", patroniTime, what)
		}
	}
}

// A state is what a node's Patroni says.
type state struct {
	State string
	Role  string
	Seen  int64 `json:"dcs_last_seen"`
	Sync  bool  `json:"sync_standby"`
}

func (n *patroniNode) state() (s state) {
	// The status is 503 for some states.
	_, text, _ := ask(fmt.Sprintf("127.0.0.1:%d", n.REST), "/patroni")
	_ = json.Unmarshal(text, &s) // no answer: no state
	return s
}

// whole reports whether there is a primary, all others run, and one of these is synchronous.
func (p *patroni) whole() bool {
	primaries, running, synchronous := 0, 0, 0
	for _, n := range p.nodes {
		s := n.state()
		if s.Role == "primary" {
			primaries++
		}
		if s.State == "running" || s.State == "streaming" {
			running++
		}
		if s.Sync {
			synchronous++
		}
	}
	return primaries == 1 && running == patroniNodes && synchronous > 0
}

// seenSince reports whether all nodes have used the store a whole ttl after a time.
func (p *patroni) seenSince(since time.Time) bool {
	for _, n := range p.nodes {
		if n.state().Seen < since.Add(20*time.Second).Unix() {
			return false
		}
	}
	return true
}

// sql runs a command at the primary.
func (p *patroni) sql(t *testing.T, command string) []byte {
	t.Helper()
	hosts, ports := make([]string, 0, patroniNodes), make([]string, 0, patroniNodes)
	for _, n := range p.nodes {
		hosts, ports = append(hosts, "127.0.0.1"), append(ports, strconv.Itoa(n.Port))
	}
	at := fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres target_session_attrs=read-write",
		strings.Join(hosts, ","), strings.Join(ports, ","))
	return suite.Output(t, p.python("programs/read.py", at, command))
}

// startWriters starts a writer for each node: only a primary takes writes. stop ends them.
func (p *patroni) startWriters(t *testing.T) (stop func()) {
	t.Helper()
	var inputs []io.Closer
	var running sync.WaitGroup
	for i, n := range p.nodes {
		c := p.python("programs/writer.py", strconv.Itoa(n.Port), strconv.Itoa(i*1_000_000_000))
		input, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		output, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, input)
		running.Go(func() {
			for lines := bufio.NewScanner(output); lines.Scan(); {
				var w write
				if _, err := fmt.Sscan(lines.Text(), &w.number, &w.end); err == nil {
					p.mu.Lock()
					p.writes[i] = append(p.writes[i], w)
					p.mu.Unlock()
				}
			}
			_ = c.Wait() // it ends with its input
		})
	}
	stop = sync.OnceFunc(func() {
		for _, input := range inputs {
			_ = input.Close()
		}
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// awaitWrites waits until a node other than one acknowledges writes that it has not acknowledged yet, and returns it.
func (p *patroni) awaitWrites(t *testing.T, other int) (found int) {
	t.Helper()
	before := p.counts()
	p.await(t, fmt.Sprintf("%d writes at another node than %d", acknowledged, other), func() bool {
		for i, n := range p.counts() {
			if i != other && n >= before[i]+acknowledged {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

func (p *patroni) counts() (counts [patroniNodes]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range counts {
		counts[i] = len(p.writes[i])
	}
	return counts
}

// check looks for every acknowledged write, and for the order in which nodes were primaries.
func (p *patroni) check(t *testing.T, primaries []int) {
	t.Helper()
	kept := make(map[string]bool)
	for line := range strings.Lines(string(p.sql(t, "select n from written"))) {
		kept[strings.TrimSpace(line)] = true
	}
	type one struct {
		node int
		write
	}
	var all []one
	for _, i := range slices.Sorted(maps.Keys(p.writes)) {
		for _, w := range p.writes[i] {
			if !kept[strconv.FormatInt(w.number, 10)] {
				t.Errorf("write %d was acknowledged by node%d and is lost", w.number, i)
			}
			all = append(all, one{i, w})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return int(a.end - b.end) })
	var order []int
	for _, w := range all {
		if len(order) == 0 || order[len(order)-1] != w.node {
			order = append(order, w.node)
		}
	}
	if !slices.Equal(order, primaries) {
		t.Errorf("primaries were %v in turn, not %v: two at a time", order, primaries)
	}
	t.Logf("%d writes acknowledged, none lost; primaries: %v", len(all), order)
}
