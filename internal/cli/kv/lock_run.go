package kv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
)

// guarded runs a command for as long as a lock is held.
type guarded struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environment    []string
	signals        *signals
}

// run returns when the command has ended. It ends the command before others can hold the lock.
func (g *guarded) run(l *client.Lock, command []string) error {
	runtime.LockOSThread() // the command dies with the thread that started it
	defer runtime.UnlockOSThread()
	if _, shared := g.stderr.(*os.File); !shared {
		g.stderr = &serialWriter{to: g.stderr} // [exec.Cmd] copies the command's output from another goroutine
	}
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = g.stdin, g.stdout, g.stderr, g.environment
	// In the terminal's process group the command can use the terminal. Without a terminal it gets a group of its own, so
	// that signals reach its children too.
	shared := cli.IsTerminal(os.Stdin)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: !shared}
	g.signals.add(relayed)
	g.signals.add([]os.Signal{syscall.SIGCHLD})
	if err := c.Start(); err != nil {
		return fmt.Errorf("the command cannot be run: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	err := g.guard(l, ended, &job{pid: c.Process.Pid, shared: shared})
	return commandStatus(err)
}

// serialWriter passes one write on at a time.
type serialWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *serialWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// guard waits for the command's end. Meanwhile it forwards signals. It ends the command when the lock is lost.
func (g *guarded) guard(l *client.Lock, ended <-chan error, j *job) error {
	for {
		select {
		case err := <-ended:
			return err
		case s := <-g.signals.c:
			g.handle(s.(syscall.Signal), l, j)
		case <-l.Done():
			return g.end(l, ended, j)
		}
	}
}

// handle forwards a signal to the command. A command that stops keeps the lock, unless this process stops with it.
func (g *guarded) handle(s syscall.Signal, l *client.Lock, j *job) {
	switch {
	case s == syscall.SIGCONT && l.Left() <= 0: // lost while this process was stopped: guard is about to end the command
	case s != syscall.SIGCHLD:
		j.forward(s)
	case !j.stopped():
	case j.shared || j.asked:
		j.suspend()
	default:
		fmt.Fprintf(g.stderr, "netcraq: the command has stopped and keeps the lock: continue it with kill -CONT -%d\n",
			j.pid)
	}
}

// end ends the command before others can hold the lock.
func (g *guarded) end(l *client.Lock, ended <-chan error, j *job) error {
	fmt.Fprintf(g.stderr, "netcraq: %v: the command is ended\n", l.Err())
	if l.Left() > 0 {
		j.signal(syscall.SIGTERM)
		j.signal(syscall.SIGCONT) // a stopped command handles no signal
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(max(l.Left(), 0)):
		j.signal(syscall.SIGKILL)
		return <-ended
	}
}

// commandStatus returns the command's exit status as an error without a message: the command has reported its error.
func commandStatus(err error) error {
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		return err
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return cli.ExitBySignal(status.Signal(), cli.ErrSaid)
	}
	return cli.ExitWith(exit.ExitCode(), cli.ErrSaid)
}
