// Package eintr makes system calls again that a signal has interrupted. Go's runtime sends signals to its own threads
// to take turns, and marks them so that most calls go on by themselves; calls with a timeout, such as a receive on a
// socket with SO_RCVTIMEO, do not (signal(7)). The os and net packages look after their own calls. A call that is made
// directly, and that the manual lets fail with EINTR, belongs in here; close is the exception, since the descriptor is
// gone in any case.
package eintr

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Retry makes a call until no signal interrupts it, and returns its error. A call with a timeout gets the whole time
// again.
func Retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Value is [Retry] of a call with a result.
func Value[T any](call func() (T, error)) (value T, err error) {
	err = Retry(func() error {
		value, err = call()
		return err
	})
	return value, err
}
