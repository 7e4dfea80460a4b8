package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// spoken is the output of a command so far.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// byHand is a command that a user started in a separate terminal.
type byHand struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  *spoken
	ended chan struct{}
	err   error
}

// startByHand starts a command line. The word "netcraq" stands for this program.
func startByHand(t *testing.T, argv ...string) *byHand {
	t.Helper()
	for i, word := range argv {
		if word == "netcraq" {
			argv[i] = os.Args[0]
		}
	}
	b := &byHand{t: t, said: &spoken{more: make(chan struct{}, 1)}, ended: make(chan struct{})}
	b.cmd = exec.Command(argv[0], argv[1:]...)
	b.cmd.Env = append(os.Environ(), clitest.AsCommand+"=1")
	b.cmd.Stdout, b.cmd.Stderr = b.said, b.said
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.ended)
	}()
	t.Cleanup(func() { b.end(syscall.SIGKILL) })
	return b
}

// await waits until the command has printed a text or has ended.
func (b *byHand) await(what string) {
	b.t.Helper()
	late := time.After(clitest.Formed)
	for !strings.Contains(b.said.String(), what) {
		select {
		case <-b.said.more:
		case <-b.ended:
			if !strings.Contains(b.said.String(), what) {
				b.t.Fatalf("%s ended without %q: %s", b.cmd, what, b.said)
			}
		case <-late:
			b.t.Fatalf("%s does not say %q: %s", b.cmd, what, b.said)
		}
	}
}

// end sends a signal and waits for the end.
func (b *byHand) end(s syscall.Signal) {
	_ = b.cmd.Process.Signal(s) // fails only if it has ended
	<-b.ended
}

// TestInterruptedServers ends a controller and its node by Ctrl-C, which is the way out of both and no failure.
func TestInterruptedServers(t *testing.T) {
	controller := startByHand(t, "netcraq", "controller", "--listen", "127.3.12.1", "--data-dir", t.TempDir())
	node := startByHand(t, "netcraq", "node", "--name", "n1", "--addr", "127.3.12.2:4411", "--join", "127.3.12.1",
		"--plane", "soft")
	node.await(agent.UpMessage)
	for name, server := range map[string]*byHand{"node": node, "controller": controller} {
		if server.end(syscall.SIGINT); server.err != nil {
			t.Errorf("the %s ends by Ctrl-C: %v: %s", name, server.err, server.said)
		}
	}
}

// TestNodeByHandInALab starts a node by hand in a lab's host. It expects that --remove next to a
// running agent removes nothing and reports this, that a second agent is refused, and that `lab
// down` removes the node completely.
func TestNodeByHandInALab(t *testing.T) {
	lab := clitest.LabName(t, "hand")
	clitest.MustRun(t, "lab", "--name", lab, "up", "--plane", "none", "--nodes", "1", "--clients", "1")
	name := fmt.Sprintf("hand%d", os.Getpid())
	pin := xdp.DefaultPin(name)
	t.Cleanup(func() { xdp.Remove(pin) })
	host := hostOf(t, lab, "n1")
	start := []string{"lab", "--name", lab, "exec", "n1", "--", os.Args[0], "node", "--name", name, "--addr",
		host + ":4411", "--plane", "xdp",
		"--objects", "1000", "--sessions", "1000"}
	agent := startByHand(t, append([]string{"netcraq"}, start...)...)
	agent.await("node is up")
	_, code, err := clitest.Netcraq("node", "--name", name, "--remove")
	if code != cli.ExitError || !strings.Contains(fmt.Sprint(err), "nothing was removed: an agent (process ") {
		t.Errorf("--remove beside the agent: status %d: %v", code, err)
	}
	if !xdp.Pinned(pin) {
		t.Error("it is removed")
	}
	if _, code, err := clitest.Netcraq(start...); code != cli.ExitError ||
		!strings.Contains(fmt.Sprint(err), "looks after the data plane") {
		t.Errorf("a second agent: status %d: %v", code, err)
	}
	agent.end(syscall.SIGTERM)
	if !xdp.Pinned(pin) {
		t.Fatalf("the data plane ended with its agent: %s", agent.said)
	}
	clitest.MustRun(t, "lab", "--name", lab, "down")
	if _, err := os.Stat(pin); err == nil {
		t.Error("its pins are left")
	}
}

// TestNodeWithoutItsState (C10) kills a node of a static chain with all that it stored, and the agents of the others.
// It expects that the node waits while no agent answers, that an agent whose data plane is in the kernel takes it up
// without asking, and that the node then ends and leaves nothing in the kernel.
func TestNodeWithoutItsState(t *testing.T) {
	lab := clitest.LabName(t, "lost")
	clitest.MustRun(t, "lab", "--name", lab, "up", "--plane", "none", "--nodes", "3", "--clients", "1")
	file := filepath.Join("/run/netcraq/labs", lab, "cluster.yaml")
	start := func(node string) *byHand {
		pin := xdp.DefaultPin(lab + node)
		t.Cleanup(func() { xdp.Remove(pin) })
		return startByHand(t, "netcraq", "lab", "--name", lab, "exec", node, "--", os.Args[0], "node", "--name", node,
			"--cluster", file, "--plane", "xdp", "--pin", pin, "--objects", "1000", "--sessions", "1000")
	}
	first := start("n1")
	first.await(agent.WaitMessage)
	second := start("n2")
	second.await(agent.WaitMessage)
	third := start("n3")
	for _, node := range []*byHand{first, second, third} {
		node.await(agent.UpMessage)
	}
	clitest.MustRun(t, "lab", "--name", lab, "exec", "c1", "--", "netcraq", "put", "k", "v")
	for _, node := range []*byHand{first, second, third} {
		node.end(syscall.SIGKILL)
	}
	pin := xdp.DefaultPin(lab + "n1")
	clitest.MustRun(t, "lab", "--name", lab, "exec", "n1", "--", "netcraq", "node", "--remove", "--pin", pin)
	first = start("n1")
	first.await(agent.WaitMessage)
	start("n2").await(agent.UpMessage)
	first.await("has lost its state")
	<-first.ended
	if _, err := os.Stat(pin); err == nil {
		t.Error("the data plane of the node that lost its state is left")
	}
	if out, code, err := clitest.Netcraq("lab", "--name", lab, "exec", "c1", "--", "netcraq", "get", "k"); code != 0 ||
		strings.TrimSpace(out) != "v" {
		t.Errorf("the write is gone: %q, status %d: %v", out, code, err)
	}
}

// hostOf returns the address of a host of a lab.
func hostOf(t *testing.T, lab, name string) string {
	t.Helper()
	for _, h := range statusOf(t, lab).Hosts {
		if h.Name == name {
			return h.Addr.String()
		}
	}
	t.Fatalf("lab %s has no host %s", lab, name)
	return ""
}
