package kv_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// limit is the time after which a test fails.
const limit = time.Minute

// holder is a process of `netcraq lock` in a directory of its own.
type holder struct {
	*exec.Cmd
	t      *testing.T
	dir    string
	client *client.Client
	stderr bytes.Buffer
}

// newHolder prepares `netcraq lock l`, on a new chain. The caller starts it.
func newHolder(t *testing.T, args ...string) *holder {
	t.Helper()
	path := clitest.StartChain(t)
	cluster, err := client.LoadCluster(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster, Timeout: clitest.Formed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	notIgnored(t)
	h := &holder{t: t, dir: t.TempDir(), client: c}
	h.Cmd = exec.Command(os.Args[0], append([]string{"lock", "l"}, args...)...)
	h.Env = append(os.Environ(), clitest.AsCommand+"=1", topology.PathVariable+"="+path)
	h.Dir, h.Stderr, h.WaitDelay = h.dir, &h.stderr, time.Second // a child of a killed command may keep the pipe
	h.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return h
}

// notIgnored gives programs that this process starts the default actions of signals that it ignores, as under nohup.
func notIgnored(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	t.Cleanup(func() { signal.Stop(c) })
}

func (h *holder) start() {
	h.t.Helper()
	if err := h.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if h.ProcessState == nil {
			clitest.Kill(h.Cmd)
		}
	})
}

// await returns once the command has made the file. It returns the file's contents.
func (h *holder) await(name string) string {
	h.t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-ticker.C {
		if text, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil {
			return string(text)
		}
	}
	h.t.Fatalf("the command has not made %s", name)
	return ""
}

func (h *holder) send(s syscall.Signal) {
	h.t.Helper()
	if err := h.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// end returns the state of the process after its end.
func (h *holder) end() syscall.WaitStatus {
	h.t.Helper()
	late := time.AfterFunc(limit, func() { _ = h.Process.Kill() })
	defer late.Stop()
	_ = h.Wait() // the state says more
	return h.ProcessState.Sys().(syscall.WaitStatus)
}

// changes returns the state of the process once it has stopped or ended.
func (h *holder) changes() (status syscall.WaitStatus) {
	h.t.Helper()
	late := time.AfterFunc(limit, func() { _ = h.Process.Kill() })
	defer late.Stop()
	_, err := eintr.Value(func() (int, error) { return syscall.Wait4(h.Process.Pid, &status, syscall.WUNTRACED, nil) })
	if err != nil {
		h.t.Fatal(err)
	}
	return status
}

// stops waits until the process has stopped.
func (h *holder) stops() {
	h.t.Helper()
	if status := h.changes(); !status.Stopped() {
		h.t.Fatalf("it has not stopped: %+v", status)
	}
}

// free fails if the lock is taken.
func (h *holder) free() {
	h.t.Helper()
	l, err := h.client.TryLock(h.t.Context(), "l", client.LockOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := l.Unlock(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// waiting is the end of a script that waits for signals. Only wait cannot miss one, and a shell whose child is stopped
// between vfork and exec does not stop: so it starts one process, before it is ready.
const waiting = "sleep 1000 >/dev/null 2>&1 & trap 'kill -9 $!' EXIT; >ready; while :; do wait; done"

// trapping is a script that ends with status 5 after it got the signal.
func trapping(s syscall.Signal, more string) []string {
	name := strings.TrimPrefix(unix.SignalName(s), "SIG")
	script := fmt.Sprintf("%s; trap 'echo %s >got; exit 5' %s; %s", more, name, name, waiting)
	return []string{"--ttl", "1h", "--", "sh", "-c", script}
}

// The command gets the signals that its holder gets, the holder ends as the command does, and the lock is free then.
func TestLockForwardsSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			h := newHolder(t, trapping(s, ":")...)
			h.start()
			h.await("ready")
			h.send(s)
			if status := h.end(); status.ExitStatus() != 5 {
				t.Errorf("%+v: %s", status, &h.stderr)
			}
			h.await("got")
			h.free()
		})
	}
}

// A command that a signal ends has the exit status that shells report. After SIGINT the holder is ended by it as well.
func TestLockEndsBySignal(t *testing.T) {
	for s, want := range map[string]func(syscall.WaitStatus) bool{
		"QUIT": func(w syscall.WaitStatus) bool { return w.ExitStatus() == 128+int(syscall.SIGQUIT) },
		"KILL": func(w syscall.WaitStatus) bool { return w.ExitStatus() == 128+int(syscall.SIGKILL) },
		"INT":  func(w syscall.WaitStatus) bool { return w.Signaled() && w.Signal() == syscall.SIGINT },
	} {
		h := newHolder(t, "--", "sh", "-c", "kill -"+s+" $$")
		h.start()
		if status := h.end(); !want(status) {
			t.Errorf("%s: %+v: %s", s, status, &h.stderr)
		}
		h.free()
	}
}

// A program that nohup started stays safe from SIGHUP, and so does its command.
func TestLockLeavesHangUpIgnored(t *testing.T) {
	h := newHolder(t, trapping(syscall.SIGUSR1, ":")...)
	h.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, h.Args...)
	h.Path = "/bin/sh"
	h.start()
	h.await("ready")
	h.send(syscall.SIGHUP)
	h.send(syscall.SIGUSR1)
	if status := h.end(); status.ExitStatus() != 5 {
		t.Errorf("%+v: %s", status, &h.stderr)
	}
}

// A signal ends the wait for a lock.
func TestLockWaitIsInterrupted(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		h := newHolder(t, "--try", "--", "touch", "ran")
		held, err := h.client.Lock(t.Context(), "l", client.LockOptions{TTL: time.Hour, Note: "the test"})
		if err != nil {
			t.Fatal(err)
		}
		defer held.Unlock(context.Background())
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		h.Stderr = write
		h.start()
		write.Close()
		terminal := newTerminal(t, read)
		terminal.await("waiting up to")
		h.send(s)
		status := h.end()
		terminal.await("held by the test")
		if _, err := os.Stat(filepath.Join(h.dir, "ran")); err == nil || status.ExitStatus() != 128+int(s) {
			t.Errorf("%+v, %v", status, err)
		}
	}
}

// The holder stops with its command, and continues it while the lock is held.
func TestLockStops(t *testing.T) {
	h := newHolder(t, trapping(syscall.SIGUSR1, "trap '>continued' CONT; echo $$ >pid")...)
	h.start()
	h.await("ready")
	pid := strings.TrimSpace(h.await("pid"))
	h.send(syscall.SIGTSTP)
	h.stops()
	if state := processState(t, pid); state != "T" {
		t.Errorf("the command is in state %s", state)
	}
	h.send(syscall.SIGCONT)
	h.await("continued")
	h.send(syscall.SIGUSR1)
	if status := h.end(); status.ExitStatus() != 5 {
		t.Errorf("%+v: %s", status, &h.stderr)
	}
	h.free()
}

func processState(t *testing.T, pid string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return after[:1]
}

// A command that ignores SIGTSTP runs on, so the holder has to renew the lock.
func TestLockDoesNotStopAlone(t *testing.T) {
	h := newHolder(t, trapping(syscall.SIGUSR1, "trap '' TSTP")...)
	h.start()
	h.await("ready")
	h.send(syscall.SIGTSTP)
	h.send(syscall.SIGUSR1)
	if status := h.changes(); status.ExitStatus() != 5 {
		t.Errorf("%+v", status)
	}
}

// A command that is stopped alone keeps the lock, and its user hears of it.
func TestLockOfStoppedCommand(t *testing.T) {
	h := newHolder(t, trapping(syscall.SIGUSR1, "echo $$ >pid")...)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	h.Stderr = write
	h.start()
	write.Close()
	h.await("ready")
	var pid int
	if _, err := fmt.Sscan(h.await("pid"), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	newTerminal(t, read).await(fmt.Sprintf("kill -CONT -%d", pid))
	h.send(syscall.SIGUSR1)
	h.send(syscall.SIGCONT)
	if status := h.end(); status.ExitStatus() != 5 {
		t.Errorf("%+v", status)
	}
}

// A command whose lock was lost while it was stopped does not run on.
func TestLockIsLostWhileStopped(t *testing.T) {
	h := newHolder(t, "--ttl", "300ms", "--", "sh", "-c",
		"trap '>ran' CONT TERM; "+waiting)
	h.start()
	h.await("ready")
	h.send(syscall.SIGTSTP)
	h.stops()
	other, err := h.client.Lock(t.Context(), "l", client.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Unlock(context.Background())
	h.send(syscall.SIGCONT)
	status := h.end()
	if _, err := os.Stat(filepath.Join(h.dir, "ran")); err == nil || status.ExitStatus() != cli.ExitLockLost {
		t.Errorf("%+v, the command ran on: %v: %s", status, err == nil, &h.stderr)
	}
}

// terminal collects what programs write.
type terminal struct {
	t     *testing.T
	mu    sync.Mutex
	text  strings.Builder
	added chan struct{}
}

func newTerminal(t *testing.T, from *os.File) *terminal {
	o := &terminal{t: t, added: make(chan struct{}, 1)}
	go func() {
		var buffer [4096]byte
		for {
			n, err := from.Read(buffer[:])
			o.mu.Lock()
			o.text.Write(buffer[:n])
			o.mu.Unlock()
			select {
			case o.added <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return o
}

func (o *terminal) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns the text once it contains what is wanted.
func (o *terminal) await(wanted string) string {
	o.t.Helper()
	for late := time.After(limit); ; {
		if text := o.String(); strings.Contains(text, wanted) {
			return text
		}
		select {
		case <-o.added:
		case <-late:
			o.t.Fatalf("no %q in %q", wanted, o.String())
		}
	}
}

// pseudoTerminal opens both ends of a terminal that does not echo.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	settings, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	settings.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, settings); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// An interactive shell stops and continues the command as any other. Ctrl-C reaches it once.
func TestLockInTerminal(t *testing.T) {
	h := newHolder(t)
	h.Args, h.Path = []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}, "/bin/bash"
	h.Env = append(h.Env, "LOCK="+os.Args[0], "SCRIPT=trap 'echo interrupted' INT; trap 'echo continued' CONT; "+
		"trap 'exit 5' USR1; echo $PPID >pid; "+waiting)
	master, slave := pseudoTerminal(t)
	h.Stdin, h.Stdout, h.Stderr = slave, slave, slave
	h.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true, Setctty: true}
	h.start()
	output := newTerminal(t, master)
	enter := func(text string) {
		t.Helper()
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	enter("\"$LOCK\" lock l --ttl 1h -- sh -c \"$SCRIPT\"\n")
	h.await("ready")
	var pid int
	if _, err := fmt.Sscan(h.await("pid"), &pid); err != nil {
		t.Fatal(err)
	}
	enter("\x1a") // Ctrl-Z
	output.await("Stopped")
	enter("fg\n")
	output.await("continued")
	enter("\x03") // Ctrl-C
	output.await("interrupted")
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	enter("echo status $?\n")
	text := output.await("status 5")
	if n := strings.Count(text, "interrupted"); n != 1 {
		t.Errorf("the command got %d signals of Ctrl-C: %s", n, text)
	}
	h.free()
	enter("exit\n")
	h.end()
}
