package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Formed limits the time that a cluster may take for a step.
const Formed = time.Minute

// Managed is a cluster of processes: a controller and its nodes.
type Managed struct {
	T          *testing.T
	Controller string
	Nodes      map[string]*exec.Cmd
	Follower   *follow.Follower
}

// StartManaged starts a controller at an address of this test. It does not wait for the controller.
func StartManaged(t *testing.T, host string, flags ...string) *Managed {
	t.Helper()
	m := &Managed{T: t, Controller: host + ":4413", Nodes: make(map[string]*exec.Cmd)}
	m.Run("controller", append([]string{"controller", "--listen", host, "--data-dir", t.TempDir()}, flags...)...)
	return m
}

// Run starts the command in a process of its own, which ends with the test.
func (m *Managed) Run(name string, args ...string) *exec.Cmd {
	m.T.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), AsCommand+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also with a test that is killed
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() {
		Kill(cmd)
		if m.T.Failed() {
			m.T.Logf("log of %s:\n%s", name, &log)
		}
	})
	return cmd
}

// Kill ends a process as kill -9 does, and waits until it is gone.
func Kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may be gone
	_ = cmd.Wait()         // it reports the kill
}

func (m *Managed) StartNode(name, addr string) {
	m.T.Helper()
	m.Nodes[name] = m.Run(name, "node", "--name", name, "--addr", addr, "--join", m.Controller, "--plane", "soft",
		"--labels", "zone="+name)
}

// Await waits until is holds for the map of the cluster.
func (m *Managed) Await(what string, is func(*topology.Map) bool) {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(m.T.Context(), Formed)
	defer cancel()
	if m.Follower == nil {
		var err error
		if m.Follower, err = follow.Open(ctx, follow.Options{Addrs: []string{m.Controller}}); err != nil {
			m.T.Fatal(err)
		}
		m.T.Cleanup(func() { m.Follower.Close() })
	}
	if m.Follower.Await(ctx, is) != nil {
		m.T.Fatalf("%s: not within %v; the map is %+v", what, Formed, m.Follower.Map())
	}
}

// FullyReplicated returns a function that reports whether every chain has this number of complete members.
func FullyReplicated(members int) func(*topology.Map) bool {
	return func(m *topology.Map) bool {
		return len(m.Chains) > 0 && !slices.ContainsFunc(m.Chains, func(c topology.MapChain) bool {
			return len(c.Members) != members || c.Learner >= 0
		})
	}
}

// Serves reports whether a node is a member of a chain.
func Serves(m *topology.Map, name string) bool {
	return slices.ContainsFunc(m.Chains, func(c topology.MapChain) bool { return slices.Contains(m.Names(&c), name) })
}

// Client makes a client of the cluster until the test ends. Its operations wait long enough for a busy machine.
func (m *Managed) Client() *client.Client {
	m.T.Helper()
	c, err := client.New(client.Options{Follow: m.Follower, Timeout: answered})
	if err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { c.Close() })
	return c
}

// Ask runs a command and returns its output and its exit status.
func (m *Managed) Ask(args ...string) (said, complained string, status int) {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(m.T.Context(), Formed)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append(args, "--controllers", m.Controller)...)
	cmd.Env = append(os.Environ(), AsCommand+"=1")
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if ran := cmd.Run(); ran != nil && !errors.As(ran, &exit) {
		m.T.Fatal(ran)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// Object runs a command with --json and decodes its output.
func Object[T any](m *Managed, args ...string) (v T) {
	m.T.Helper()
	said, complained, status := m.Ask(append(args, "--json")...)
	if status != 0 {
		m.T.Fatalf("netcraq %s: status %d: %s", strings.Join(args, " "), status, complained)
	}
	decoder := json.NewDecoder(strings.NewReader(said))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		m.T.Fatalf("netcraq %s: %v: %s", strings.Join(args, " "), err, said)
	}
	return v
}
