// Package eintr repeats system calls that a signal has interrupted. Go's runtime sends signals to its own threads to
// preempt goroutines. The kernel restarts most interrupted calls, but not calls with a timeout, such as a receive on a
// socket with SO_RCVTIMEO (signal(7)). The os and net packages repeat their own calls. A direct call that can fail with
// EINTR according to its manual belongs in here. close is the exception: the descriptor is closed in any case.
package eintr

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Retry repeats a call until no signal interrupts it, and returns its error. Each repetition gets the whole timeout.
func Retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Value is [Retry] for a call with a result.
func Value[T any](call func() (T, error)) (value T, err error) {
	err = Retry(func() error {
		value, err = call()
		return err
	})
	return value, err
}
