package main

import "errors"

// Exit statuses besides 0. Scripts rely on them.
const (
	exitError          = 1
	exitUsage          = 2
	exitNotFound       = 3
	exitCASFailed      = 4
	exitOutcomeUnknown = 5
	exitLocked         = 6
	exitLockLost       = 7
)

// statusError is an error with an exit status of its own.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// errSaid stands for an error of which the user knows already.
var errSaid = errors.New("")

// usageError marks an error of the command line.
func usageError(err error) error { return &statusError{exitUsage, err} }

// exitStatus is the status that the process ends with. An error that came before any command started is one of usage.
func exitStatus(err error, started bool) int {
	var status *statusError
	switch {
	case errors.As(err, &status):
		return status.status
	case !started:
		return exitUsage
	}
	return exitError
}
