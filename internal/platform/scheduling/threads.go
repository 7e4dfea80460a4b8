package scheduling

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// EachThread calls f once for each thread of this process, until none is left that a thread started before f had seen to it.
// A thread may end meanwhile: the error that it does not exist is none. Any other ends the walk.
func EachThread(f func(id int) error) error {
	seen := make(map[int]bool)
	for {
		before := len(seen)
		if err := eachNew(seen, f); err != nil || len(seen) == before {
			return err
		}
	}
}

// eachNew calls f for the threads that there are and have not been seen.
func eachNew(seen map[int]bool, f func(id int) error) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if seen[id] {
			continue
		}
		if err := f(id); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		seen[id] = true
	}
	return nil
}
