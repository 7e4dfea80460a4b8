package scheduling

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// EachThread calls f once for each thread of this process. It repeats the walk until it finds no new threads, because a
// thread may start others before its own call. ESRCH is no error, since threads may end meanwhile. Any other error ends the
// walk.
func EachThread(f func(id int) error) error {
	seen := make(map[int]bool)
	for {
		before := len(seen)
		if err := eachNew(seen, f); err != nil || len(seen) == before {
			return err
		}
	}
}

// eachNew calls f for the current threads that are not in seen.
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
