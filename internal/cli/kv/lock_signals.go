package kv

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// ending signals end a program that does not handle them.
var ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// relayed signals are passed to the command while it runs.
var relayed = append(slices.Clone(ending),
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)

// fromTerminal are the signals that a terminal sends to all processes of its foreground group.
var fromTerminal = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH}

// Users signal `netcraq lock NAME -- COMMAND` to reach the command. A stopped process renews no lock, so this one
// stops only after its command. A command that is continued after its lock was lost runs until this process has seen
// that; the fencing token covers this.

// forwards reports whether to pass a signal to the command. shared: the command is in the process group of this process.
// foreground: that group is the terminal's foreground group, so the command gets the terminal's signals as well.
func forwards(s syscall.Signal, shared, foreground bool) bool {
	return !shared || !foreground || !slices.Contains(fromTerminal, s)
}

// inForeground reports whether this process is in the foreground group of the terminal on standard input.
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// signals receives the signals to this process.
type signals struct{ c chan os.Signal }

// listen receives ending signals. It leaves SIGHUP ignored if it was ignored at the start, as by nohup: the command
// inherits that.
func listen() *signals {
	s := &signals{c: make(chan os.Signal, 16)}
	s.add(ending)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write to a pipe without a reader fails instead
	return s
}

func (s *signals) add(more []os.Signal) {
	for _, sig := range more {
		if sig != syscall.SIGHUP || !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
}

func (s *signals) stop() { signal.Stop(s.c) }

// interrupting returns a context that ends with the next signal. Its function ends it too, and returns that signal; 0:
// none came.
func (s *signals) interrupting(ctx context.Context) (context.Context, func() syscall.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	came := make(chan syscall.Signal, 1)
	go func() {
		defer close(came)
		select {
		case sig := <-s.c:
			came <- sig.(syscall.Signal)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() syscall.Signal {
		cancel()
		return <-came
	}
}

// job is the running command, as a shell sees a job.
type job struct {
	pid    int
	shared bool // it is in the process group of this process
	asked  bool // this process got SIGTSTP, and no SIGCONT since
}

// signal sends a signal to the command, and to its children if they have a group of their own.
func (j *job) signal(s syscall.Signal) {
	target := j.pid
	if !j.shared {
		target = -target
	}
	_ = syscall.Kill(target, s) // it may be gone
}

// forward passes a signal to the command.
func (j *job) forward(s syscall.Signal) {
	switch s {
	case syscall.SIGTSTP:
		j.asked = true
	case syscall.SIGCONT:
		j.asked = false
	}
	if forwards(s, j.shared, j.shared && inForeground()) {
		j.signal(s)
	}
}

// stopped reports whether the command has stopped since the last call.
func (j *job) stopped() bool {
	var info unix.Siginfo
	err := eintr.Retry(func() error {
		return unix.Waitid(unix.P_PID, j.pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	})
	return err == nil && info.Signo != 0
}

// suspend stops this process, so that the shell sees that its job has stopped. Nothing renews the lock then, so all
// processes of the command are stopped before.
func (j *job) suspend() {
	j.signal(syscall.SIGSTOP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}
