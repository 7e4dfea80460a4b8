package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Process identifies a process until the machine reboots: pids are reused, pairs of pid and start
// time are not.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// ProcessOf returns the process that has a pid now.
func ProcessOf(pid int) (Process, error) {
	start, err := startTime(pid)
	return Process{pid, start}, err
}

// startTime returns the start time of a process that was not waited for yet.
func startTime(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the command, may contain spaces and parentheses. Count from its closing
	// parenthesis; field 3 follows.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const start = 19
	if len(fields) <= start {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// aliveLooks is how often Alive looks at a process before it says that it has ended.
const aliveLooks = 3

// Alive reports whether the process is running. When another thread than the first replaces the program, the process's
// number passes from one to the other, and what is read at that moment can be an error. A process that has ended stays
// so: it is looked at again.
func (p Process) Alive() bool {
	for range aliveLooks {
		if p.seemsAlive() {
			return true
		}
	}
	return false
}

// seemsAlive looks once. The state in /proc does not tell: it is that of the first thread, which is dead for a moment
// when another thread replaces the program.
func (p Process) seemsAlive() bool {
	if p.PID == 0 {
		return false
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	start, err := startTime(p.PID)
	if err != nil || start != p.Start {
		return false
	}
	ended, err := eintr.Value(func() (int, error) {
		return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return err == nil && ended == 0
}

// signal sends a signal to the process if it is still running.
func (p Process) signal(signal unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() { // checked after opening the pidfd, which rules out another process with the pid
		return nil
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %d to process %d: %w", signal, p.PID, err)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p Process) Kill() error { return p.end(unix.SIGKILL, forever) }

// Terminate ends the process with SIGTERM and waits until it is gone.
func (p Process) Terminate() error { return p.end(unix.SIGTERM, forever) }

// forever is a time without an end, for poll.
const forever = -1

// errStays says that a process did not end in time.
var errStays = errors.New("it does not end")

// end sends a signal to the process and waits so many milliseconds until it is gone.
func (p Process) end(by unix.Signal, within int) error {
	if p.PID == 0 { // never started
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() { // checked after opening the pidfd, which rules out another process with the pid
		return nil
	}
	if err := unix.PidfdSendSignal(fd, by, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", p.PID, err)
	}
	ended, err := eintr.Value(func() (int, error) {
		return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, within)
	})
	if err == nil && ended == 0 {
		err = fmt.Errorf("process %d, signal %d: %w", p.PID, by, errStays)
	}
	return err
}

// start runs a command in a namespace, with its output in a log file. The terminal's Ctrl-C does
// not reach it.
func start(nsPath string, argv []string, logFile string) (*exec.Cmd, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, inNamespace(nsPath, cmd.Start) // a child inherits the namespace of the thread that forks it
}

// processesIn returns the processes in any of the namespaces, but none in the caller's own
// namespace.
func processesIn(paths []string) ([]Process, error) {
	inside := map[uint64]bool{}
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err == nil {
			inside[st.Ino] = true
		}
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return nil, err
	}
	delete(inside, own.Ino)
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, "ns/net"), &st) != nil || !inside[st.Ino] {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, err := ProcessOf(pid); err == nil && pid != os.Getpid() {
			found = append(found, p)
		}
	}
	return found, nil
}
