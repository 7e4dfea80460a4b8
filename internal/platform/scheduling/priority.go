// Package scheduling raises the priority of a process. Controllers and agents need little CPU time, but they need it at
// once: while one of them does not run, heartbeats time out and leases expire. On a busy machine, an ordinary thread that
// wakes up every 10 ms waited up to 77 ms for a CPU, a thread of the real-time class 1.4 ms.
package scheduling

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Class is a scheduling class of a process.
type Class string

// The classes.
const (
	// RealTime runs the process before all ordinary processes, for as long as it has work. It suits a host that runs little
	// else. Long work of the process, such as copying shards, then also runs before all ordinary processes.
	RealTime Class = "realtime"
	// Fair runs the process soon, but only for its share of the time. The kernel prefers threads that ask for short slices,
	// until they have used their share (Linux 6.12 and later; sched(7), sched_setattr(2)). It suits many nodes on one
	// machine.
	Fair Class = "fair"
)

// Set sets the class by its name. With String and Type it makes Class a flag of the command line.
func (c *Class) Set(name string) error {
	if Class(name) != RealTime && Class(name) != Fair {
		return fmt.Errorf("a priority is %s or %s", RealTime, Fair)
	}
	*c = Class(name)
	return nil
}

// String returns the name of the class.
func (c *Class) String() string { return string(*c) }

// Type returns the name of the flag's value in help texts.
func (c *Class) Type() string { return "class" }

const (
	realTime = 1       // the lowest priority of the real-time class
	niceness = -10     // in the ordinary class
	sliceNs  = 100_000 // the shortest slice that the kernel gives
)

// collectAt is the percentage by which the heap may grow before a garbage collection. These processes use little memory,
// and in the real-time class clients on the same machine wait for the collector. With Go's default, 100, a node took four
// times as long to join as with 1000.
const collectAt = 400

// ErrNotRealTime says that the kernel refused the real-time class and took a lower nice value. It does so in control
// groups without real-time runtime, such as those of pods, if it is built with CONFIG_RT_GROUP_SCHED.
var ErrNotRealTime = errors.New("the kernel refuses the real-time class, as in control groups without cpu.rt_runtime_us; " +
	"the process has a lower nice value instead, which counts within its group only")

// Raise puts all threads of this process into a class. If the kernel refuses the real-time class, the threads get a lower
// nice value. Threads that start later inherit the class. All threads need the same class: Go's collector spins until the
// other threads reach a safe point, and a thread of lower priority may not get there meanwhile. The error is the kernel's
// refusal, [ErrNotRealTime] if that is of the real-time class alone.
func Raise(class Class) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	var refused error
	err := EachThread(func(thread int) error {
		err := raise(class, thread)
		if errors.Is(err, ErrNotRealTime) {
			refused, err = err, nil
		}
		return err
	})
	return cmp.Or(err, refused)
}

// raise raises one thread. A thread that is already in the real-time class keeps its priority.
func raise(class Class, thread int) error {
	now, err := unix.SchedGetAttr(thread, 0)
	if err != nil || isRealTime(now) {
		return err
	}
	var refused error
	// Round robin: threads of equal priority alternate. The kernel reserves a part of the time for ordinary threads.
	if class == RealTime {
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: realTime}
		if err := unix.SchedSetAttr(thread, &attributes, 0); err == nil || errors.Is(err, unix.ESRCH) {
			return err
		}
		refused = ErrNotRealTime
	}
	err = unix.SchedSetAttr(thread, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL,
		Nice: niceness, Runtime: sliceNs}, 0)
	return cmp.Or(err, refused)
}

// Ordinary gives this process the default priority, whatever it has inherited.
func Ordinary() error {
	return EachThread(func(thread int) error { return unix.Setpriority(unix.PRIO_PROCESS, thread, 0) })
}
