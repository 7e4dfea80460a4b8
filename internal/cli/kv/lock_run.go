package kv

import (
	"context"
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
}

// run returns when the command has ended. It ends the command before others can hold the lock.
func (g *guarded) run(ctx context.Context, l *client.Lock, command []string) error {
	runtime.LockOSThread() // the command dies with the thread that started it
	defer runtime.UnlockOSThread()
	if _, shared := g.stderr.(*os.File); !shared {
		g.stderr = &serialWriter{to: g.stderr} // [exec.Cmd] copies the command's output from another goroutine
	}
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = g.stdin, g.stdout, g.stderr, g.environment
	// In the terminal's process group the command can use the terminal. Without a terminal it gets a group of its own, so
	// that signals reach its children too.
	grouped := !cli.IsTerminal(os.Stdin)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: grouped}
	if err := c.Start(); err != nil {
		return fmt.Errorf("the command cannot be run: %w", err)
	}
	signal := func(s syscall.Signal) {
		pid := c.Process.Pid
		if grouped {
			pid = -pid
		}
		_ = syscall.Kill(pid, s) // it may be gone
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	err := g.guard(ctx, l, ended, signal)
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

// guard waits for the command's end. It ends the command when the lock is lost or ctx ends.
func (g *guarded) guard(ctx context.Context, l *client.Lock, ended <-chan error, signal func(syscall.Signal)) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		signal(syscall.SIGTERM)
	case <-l.Done():
	}
	select {
	case err := <-ended: // the command obeyed the signal while it held the lock
		return err
	case <-l.Done():
		fmt.Fprintf(g.stderr, "netcraq: %v: the command is ended\n", l.Err())
		signal(syscall.SIGTERM)
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(max(l.Left(), 0)):
		signal(syscall.SIGKILL)
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
		return cli.ExitWith(128+int(status.Signal()), cli.ErrSaid)
	}
	return cli.ExitWith(exit.ExitCode(), cli.ErrSaid)
}
