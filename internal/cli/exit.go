package cli

import "errors"

// Exit statuses besides 0. Scripts rely on them.
const (
	ExitError          = 1
	ExitUsage          = 2
	ExitNotFound       = 3
	ExitCASFailed      = 4
	ExitOutcomeUnknown = 5
	ExitLocked         = 6
	ExitLockLost       = 7
)

// StatusError is an error with an exit status of its own.
type StatusError struct {
	status int
	err    error
}

func (e *StatusError) Error() string { return e.err.Error() }
func (e *StatusError) Unwrap() error { return e.err }

// ErrSaid stands for an error that was already reported to the user.
var ErrSaid = errors.New("")

// ExitWith gives an error an exit status.
func ExitWith(status int, err error) error { return &StatusError{status, err} }

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
