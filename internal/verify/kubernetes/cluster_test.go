package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// within bounds every wait; a machine under load may take long.
const within = 60 * time.Second

// newCluster returns the options of a cluster whose programs only wait.
func newCluster(t *testing.T) Options {
	dir := t.TempDir()
	name := fmt.Sprintf("t%d", os.Getpid())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range append([]string{"netcraq"}, programs...) {
		if err := os.Symlink(self, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	return Options{Name: name, Netcraq: filepath.Join(dir, "netcraq"), Programs: dir,
		Machine: machineCommand(t, name), Progress: func(string) {}}
}

// startControl starts the control machine of a cluster that the test removes.
func startControl(t *testing.T, o Options) *state {
	t.Helper()
	s := prepare(t, o)
	if err := s.startMachine(hosts()[0]); err != nil {
		t.Fatal(err)
	}
	return s
}

// prepare makes the directory of a cluster that the test removes.
func prepare(t *testing.T, o Options) *state {
	t.Helper()
	t.Cleanup(func() {
		if _, err := Down(context.Background(), o.Name); err != nil {
			t.Error(err)
		}
	})
	s, err := newState(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writeFiles(); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitProgram waits until a machine runs a program, not in the process of old, and returns its pid.
func awaitProgram(t *testing.T, s *state, program string, old int) (pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := await(ctx, func() error {
		if now, ok := childrenOf(s.Machines[Control].PID)[program]; ok && now != old {
			pid = now
			return nil
		}
		return fmt.Errorf("%s does not run", program)
	})
	if err != nil {
		log, _ := os.ReadFile(LogOf(s.Options.Name, Control, "machine"))
		t.Fatalf("%v\n%s", err, log)
	}
	return pid
}

// TestMachine: a machine runs its programs, and one that ends again. With the machine everything ends.
func TestMachine(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		o := newCluster(t)
		o.Members = MostMembers
		s := startControl(t, o)
		for _, program := range []string{"netcraq etcd etcd-1", "netcraq etcd etcd-2", "netcraq etcd etcd-3", "kube-apiserver",
			"kube-controller-manager", "kube-scheduler"} {
			awaitProgram(t, s, program, 0)
		}
		gateway := awaitProgram(t, s, "netcraq gateway", 0)
		if line := commandLine(t, gateway); strings.Contains(line, "--controllers") {
			t.Errorf("the first gateway has a chain: %s", line)
		}
		s.Joined = true
		if err := errors.Join(s.write(), unix.Kill(gateway, unix.SIGKILL)); err != nil {
			t.Fatal(err)
		}
		gateway = awaitProgram(t, s, "netcraq gateway", gateway)
		if line := commandLine(t, gateway); !strings.Contains(line, "--controllers 192.0.2.1,192.0.2.2,192.0.2.3") {
			t.Errorf("the next gateway has no chain: %s", line)
		}
		if _, err := net.InterfaceByName(rootDevice(o.Name)); err != nil {
			t.Errorf("the link into the cluster: %v", err)
		}
		if was, err := Down(t.Context(), o.Name); err != nil || !was {
			t.Fatalf("Down: %v, %v", was, err)
		}
		if err := unix.Kill(gateway, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("the gateway runs without its machine: %v", err)
		}
		if _, err := net.InterfaceByName(rootDevice(o.Name)); err == nil {
			t.Error("the link into the cluster is left")
		}
		if _, err := os.Stat(dirOf(o.Name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the cluster's directory is left: %v", err)
		}
		if was, err := Down(t.Context(), o.Name); err != nil || was {
			t.Errorf("a second Down: %v, %v", was, err)
		}
	})
}

// TestMembers: etcd's members read through the chain once they are started again with it, and the API server uses them.
func TestMembers(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		s := startControl(t, newCluster(t))
		member, api := awaitProgram(t, s, "netcraq etcd etcd-1", 0), awaitProgram(t, s, apiProgram, 0)
		if line := commandLine(t, member); strings.Contains(line, "--chain") {
			t.Errorf("plain etcd has a chain: %s", line)
		}
		s.ChainMembers, s.Direct = true, true
		if err := errors.Join(s.write(), unix.Kill(member, unix.SIGKILL), unix.Kill(api, unix.SIGKILL)); err != nil {
			t.Fatal(err)
		}
		line := commandLine(t, awaitProgram(t, s, "netcraq etcd etcd-1", member))
		if !strings.Contains(line, "--chain-controllers=192.0.2.1,192.0.2.2,192.0.2.3") {
			t.Errorf("the member has no chain: %s", line)
		}
		if line := commandLine(t, awaitProgram(t, s, apiProgram, api)); !strings.Contains(line, "--etcd-servers=http://127.0.0.1:2379 ") {
			t.Errorf("the API server does not use it: %s", line)
		}
		if is := s.serving().Store; is != StoreMember {
			t.Errorf("the store is %s", is)
		}
	})
}

// TestMemoryGateways: the control machine starts both when leases are to be in memory, starts one that ends again, and
// ends both when they are not. Meanwhile the API server's command names them.
func TestMemoryGateways(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		s := startControl(t, newCluster(t))
		api := awaitProgram(t, s, apiProgram, 0)
		awaitProgram(t, s, schedulerProgram, 0)
		s.MemoryLeases = true
		if err := errors.Join(s.write(), unix.Kill(s.Machines[Control].PID, unix.SIGHUP)); err != nil {
			t.Fatal(err)
		}
		for _, addr := range memoryAddrs {
			first := awaitProgram(t, s, memoryProgram+" "+addr, 0)
			if err := unix.Kill(first, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			awaitProgram(t, s, memoryProgram+" "+addr, first)
		}
		if err := unix.Kill(api, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		line := commandLine(t, awaitProgram(t, s, apiProgram, api))
		const want = "--etcd-servers-overrides=coordination.k8s.io/leases#http://192.0.2.10:23800;http://192.0.2.10:23801 "
		if !strings.Contains(line, want) {
			t.Errorf("the API server does not keep its leases there: %s", line)
		}
		s.MemoryLeases = false
		if err := errors.Join(s.write(), s.endMemoryGateways(t.Context())); err != nil {
			t.Fatal(err)
		}
		scheduler := awaitProgram(t, s, schedulerProgram, 0)
		if err := unix.Kill(scheduler, unix.SIGKILL); err != nil { // a machine handles ends in order
			t.Fatal(err)
		}
		awaitProgram(t, s, schedulerProgram, scheduler)
		for name := range childrenOf(s.Machines[Control].PID) {
			if strings.HasPrefix(name, memoryProgram) {
				t.Errorf("%s was started again", name)
			}
		}
	})
}

func commandLine(t *testing.T, pid int) string {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(line), "\x00", " ")
}

// TestMachineSharesNothing: what a machine writes, and the kernel's settings that a kubelet would change, are its own.
func TestMachineSharesNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		s := startControl(t, newCluster(t))
		awaitProgram(t, s, "kube-scheduler", 0)
		root := fmt.Sprintf("/proc/%d/root", s.Machines[Control].PID)
		for _, dir := range append([]string{"/run", "/sys/fs/bpf"}, append(shadowed, inMemory...)...) {
			file := filepath.Join(dir, s.Options.Name)
			if err := os.Mkdir(filepath.Join(root, file), 0o700); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s of a machine is everyone's: %v", file, err)
			}
		}
		for name, value := range settings {
			text, err := os.ReadFile(filepath.Join(root, "/proc/sys", name))
			if err != nil || strings.TrimSpace(string(text)) != value {
				t.Errorf("%s: %q, %v: want %s", name, text, err, value)
			}
		}
		if name, err := os.ReadFile(filepath.Join(root, "/proc/sys/kernel/hostname")); err != nil {
			t.Error(err)
		} else if own, _ := os.Hostname(); own == Control {
			t.Errorf("this machine has the name %s of the cluster's", name)
		}
	})
}

// TestMachineAlone: a machine whose maker has ended before it was linked ends too.
func TestMachineAlone(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		o := newCluster(t)
		s := prepare(t, o)
		wait, release, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		release.Close()
		p, err := s.fork(hosts()[0], wait)
		wait.Close()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		err = await(ctx, func() error {
			if p.Alive() {
				return errors.New("the machine runs")
			}
			return nil
		})
		if said := lastLine(LogOf(o.Name, Control, "machine")); err != nil || !strings.Contains(said, "has ended") {
			t.Errorf("%v, %q", err, said)
		}
	})
}
