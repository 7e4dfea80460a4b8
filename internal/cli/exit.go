package cli

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit statuses besides 0. Scripts rely on them.
const (
	ExitError          = 1
	ExitUsage          = 2
	ExitNotFound       = 3
	ExitCASFailed      = 4
	ExitOutcomeUnknown = 5
	ExitLocked         = 6
	ExitLockLost       = 7
	ExitBroken         = 8
)

// StatusError is an error with an exit status of its own.
type StatusError struct {
	status int
	err    error
	signal syscall.Signal // that ended the command; 0: none
}

func (e *StatusError) Error() string { return e.err.Error() }
func (e *StatusError) Unwrap() error { return e.err }

// ErrSaid stands for an error that was already reported to the user.
var ErrSaid = errors.New("")

// ExitWith gives an error an exit status.
func ExitWith(status int, err error) error { return &StatusError{status: status, err: err} }

// ExitBySignal gives an error the exit status that shells report for a program that a signal ended.
func ExitBySignal(s syscall.Signal, err error) error {
	return &StatusError{status: 128 + int(s), err: err, signal: s}
}

// endInterrupted ends this process by SIGINT if that has ended its command. A shell that runs a script ends then too,
// which it does not do for an exit status.
func endInterrupted(err error) {
	var status *StatusError
	if errors.As(err, &status) && status.signal == syscall.SIGINT {
		runtime.LockOSThread()
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGINT) // the caller exits otherwise
	}
}

// UsageError marks an error of the command line.
func UsageError(err error) error { return ExitWith(ExitUsage, err) }

// ExitStatus returns the status that the process ends with. An error before any command started is one of usage.
func ExitStatus(err error, started bool) int {
	var status *StatusError
	switch {
	case errors.As(err, &status):
		return status.status
	case !started:
		return ExitUsage
	}
	return ExitError
}
