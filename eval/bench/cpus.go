package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// lastCPUs returns the last n CPUs of the calling thread's CPU set, and the set.
func lastCPUs(n int) (last, allowed unix.CPUSet, err error) {
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return last, allowed, fmt.Errorf("read the CPU set: %w", err)
	}
	for cpu := min(runtime.NumCPU(), maxCPUs) - 1; cpu >= 0 && last.Count() < n; cpu-- {
		if allowed.IsSet(cpu) {
			last.Set(cpu)
		}
	}
	return last, allowed, nil
}

// stayOnCPU keeps the calling thread on the last CPU of its CPU set.
func stayOnCPU() error {
	last, _, err := lastCPUs(1)
	if err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		return fmt.Errorf("stay on CPU set %v: %w", last, err)
	}
	return nil
}

// stayOnCPUs keeps this process on the last n CPUs of its CPU set until restore is called.
func stayOnCPUs(n int) (restore func() error, err error) {
	last, allowed, err := lastCPUs(n)
	if err != nil {
		return nil, err
	}
	if err := moveThreads(&last); err != nil {
		return nil, errors.Join(err, moveThreads(&allowed))
	}
	procs := runtime.GOMAXPROCS(n)
	return func() error {
		runtime.GOMAXPROCS(procs)
		return moveThreads(&allowed)
	}, nil
}

// moveThreads gives all threads of this process a CPU set. A new thread inherits that of the thread that made it, so a
// pass that meets no new thread is the last.
func moveThreads(to *unix.CPUSet) error {
	moved := make(map[string]bool)
	for {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		found := false
		for _, thread := range threads {
			if moved[thread.Name()] {
				continue
			}
			moved[thread.Name()], found = true, true
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, to); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("set the CPU set of thread %d: %w", id, err)
			}
		}
		if !found {
			return nil
		}
	}
}
