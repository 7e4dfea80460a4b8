package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// upVariable makes the test binary bring up the lab of that name and wait to be killed.
const upVariable, ownedVariable = "NETCRAQ_TEST_LAB_UP", "NETCRAQ_TEST_LAB_OWNED"

func TestMain(m *testing.M) {
	if name := os.Getenv(upVariable); name != "" {
		if _, err := Up(context.Background(), lineOf3(name, os.Getenv(ownedVariable) != "")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("up")
		select {}
	}
	if left, err := strconv.Atoi(os.Getenv(execVariable)); err == nil {
		execFromThread(left)
	}
	os.Exit(m.Run())
}

func lineOf3(name string, owned bool) Options {
	return Options{Name: name, Topology: Line, Nodes: 3, Clients: 1, Owned: owned}
}

func TestUpTwiceAndDownTwice(t *testing.T) {
	name := testName("u")
	l := mustUp(t, lineOf3(name, false))
	if _, err := Up(t.Context(), lineOf3(name, false)); !errors.Is(err, ErrExists) {
		t.Errorf("the second up says %v", err)
	}
	assertMesh(t, l)
	for i, want := range []bool{true, false} {
		if was, err := Down(t.Context(), name); err != nil || was != want {
			t.Errorf("down number %d: %v, %v", i+1, was, err)
		}
	}
	if _, err := Open(name); !errors.Is(err, ErrNotUp) {
		t.Errorf("open says %v", err)
	}
}

func TestTwoLabsSideBySide(t *testing.T) {
	a := mustUp(t, lineOf3(testName("x"), false))
	b := mustUp(t, lineOf3(testName("y"), false))
	if a.Plan.Subnet == b.Plan.Subnet {
		t.Fatalf("both are %v", a.Plan.Subnet)
	}
	assertMesh(t, a)
	assertMesh(t, b)
}

func TestCancelledUpLeavesNothing(t *testing.T) {
	roottest.Need(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := lineOf3(testName("c"), false)
	o.Progress = func(string) { cancel() } // the state file is written, the network is about to be made
	if _, err := Up(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("up says %v", err)
	}
	assertClean(t, o.Name)
}

func TestFailedAgentIsQuotedAndLeavesNothing(t *testing.T) {
	roottest.Need(t)
	o := lineOf3(testName("g"), false)
	o.Agent = func(*Lab, Host) []string { return []string{"sh", "-c", "echo out of luck; exit 3"} }
	_, err := Up(t.Context(), o)
	if err == nil || !contains(err, "out of luck") {
		t.Errorf("up says %v", err)
	}
	assertClean(t, o.Name)
}

func TestDownEndsProcessesInside(t *testing.T) {
	name := testName("p")
	l := mustUp(t, lineOf3(name, false))
	cmd := l.Command(t.Context(), []string{"sleep", "1000"})
	if err := l.Start("c1", cmd); err != nil {
		t.Fatal(err)
	}
	mustDown(t, name)
	if err := cmd.Wait(); err == nil {
		t.Error("the process inside ended by itself")
	}
}

// TestDownEndsAgentsOutOfReach removes the name of a namespace, so that its processes cannot be
// listed. Down must still end the agent in the state file, and must spare a process that only
// reuses an agent's pid.
func TestDownEndsAgentsOutOfReach(t *testing.T) {
	name := testName("q")
	mustUp(t, lineOf3(name, false))
	s, err := readState(name)
	if err != nil {
		t.Fatal(err)
	}
	run := func(path string) Process {
		cmd, err := start(path, []string{"sleep", "1000"}, logFile(name, "n2"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() }) // expected to be killed
		p, err := ProcessOf(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	agent := run(nsPath(name, "n2"))
	other := run("")
	s.Agents = map[string]Process{"n2": agent, "n3": {PID: other.PID, Start: other.Start + 1}}
	if err := errors.Join(s.write(), removeNamespace(nsPath(name, "n2"))); err != nil {
		t.Fatal(err)
	}
	mustDown(t, name)
	if agent.Alive() {
		t.Error("the agent is left")
	}
	if !other.Alive() {
		t.Error("a process that was no agent has been ended")
	}
}

// TestDownAfterKill kills `up` when count namespaces exist, or when it has finished (-1).
func TestDownAfterKill(t *testing.T) {
	roottest.Need(t)
	for _, count := range []int{0, 1, 3, 5, -1} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			name := testName("k")
			killUp(t, name, count, false)
			if count >= 0 {
				if _, err := Open(name); !errors.Is(err, ErrRemains) {
					t.Errorf("open says %v", err)
				}
				if _, err := Up(t.Context(), lineOf3(name, false)); !errors.Is(err, ErrRemains) {
					t.Errorf("up says %v", err)
				}
			}
			mustDown(t, name)
		})
	}
}

// TestUpAfterOwnerWasKilled expects Up to clear the remains of a lab whose owner was killed.
func TestUpAfterOwnerWasKilled(t *testing.T) {
	roottest.Need(t)
	for _, count := range []int{2, -1} {
		name := testName("o")
		killUp(t, name, count, true)
		assertMesh(t, mustUp(t, lineOf3(name, true)))
		mustDown(t, name)
	}
}

// killUp runs Up in another process and kills it.
func killUp(t *testing.T, name string, count int, owned bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), upVariable+"="+name)
	if owned {
		cmd.Env = append(cmd.Env, ownedVariable+"=1")
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }() // expected to be killed
	if count < 0 {
		if line, err := bufio.NewReader(output).ReadString('\n'); line != "up\n" {
			t.Errorf("up says %q, %v", line, err)
		}
	} else {
		for late := time.Now().Add(patience); unix.Access(stateFile(name), unix.F_OK) != nil ||
			len(namespaces(name)) < count; {
			if runtime.Gosched(); time.Now().After(late) {
				t.Fatalf("there never were %d namespaces", count)
			}
		}
	}
}
