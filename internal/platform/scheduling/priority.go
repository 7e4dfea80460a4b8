// Package scheduling lets a process run before others that share its machine. Controllers and agents need little time, but need it at
// once: while one does not run, nodes look silent, and leases run out. On a busy machine an ordinary thread that wakes up
// every 10 ms was seen to wait up to 77 ms for its turn, one of the real-time class 1.4 ms.
package scheduling

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// Class says how a process comes before others.
type Class string

// The classes.
const (
	// RealTime is before everything that is not of the real-time class itself, for as long as the process has to do something:
	// right for a host that runs little else of importance. Copies and other long work of a process then go before
	// everything else, too.
	RealTime Class = "realtime"
	// Fair is soon, but not for long: the kernel lets a thread that asks for short slices run before others whose share is
	// not smaller (Linux 6.12 and later; sched(7), sched_setattr(2)), and takes its turn from it once it has had its own share. Right where
	// many nodes share a machine.
	Fair Class = "fair"
)

// Set takes the name of a class: a Class is a flag of the command line.
func (c *Class) Set(name string) error {
	if Class(name) != RealTime && Class(name) != Fair {
		return fmt.Errorf("a priority is %s or %s", RealTime, Fair)
	}
	*c = Class(name)
	return nil
}

// String is the class's name.
func (c *Class) String() string { return string(*c) }

// Type is what a value is called in help texts.
func (c *Class) Type() string { return "class" }

const (
	realTime = 1       // the lowest of the real-time class
	niceness = -10     // of the ordinary class
	sliceNs  = 100_000 // the shortest that the kernel gives
)

// collectAt lets a process's memory grow to five times of what is in use before it is collected: these processes use little, and
// what the collector takes in the real-time class, clients on the same machine wait for. With Go's own
// setting a node was seen to take four times as long to join as with 1000.
const collectAt = 400

// Raise puts this process into a class; if it may not be of the real-time class, it gets more than its share. Linux has a priority for each
// thread; those that are started later inherit it. All have to have the same: Go's collector spins until other threads come to
// a safe point, which one that is less urgent may not reach meanwhile. The error is the kernel's refusal.
func Raise(class Class) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	return EachThread(func(thread int) error { return raise(class, thread) })
}

// raise raises a thread. Who was given a place in the real-time class keeps it.
func raise(class Class, thread int) error {
	now, err := unix.SchedGetAttr(thread, 0)
	if err != nil || now.Policy == unix.SCHED_RR || now.Policy == unix.SCHED_FIFO {
		return err
	}
	// round robin: the kernel takes turns among equals, and leaves a part of the time to everybody else
	if class == RealTime {
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: realTime}
		if err := unix.SchedSetAttr(thread, &attributes, 0); err == nil || errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return unix.SchedSetAttr(thread, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL,
		Nice: niceness, Runtime: sliceNs}, 0)
}

// Ordinary gives this process the priority that most have, whatever it has inherited.
func Ordinary() error {
	return EachThread(func(thread int) error { return unix.Setpriority(unix.PRIO_PROCESS, thread, 0) })
}

// Rest is how long work that can wait, such as a copy, is to rest after it went on for so long. A process of the real-time class takes a
// CPU from everybody while it works, and the kernel moves those who wait for that CPU to another one late: with rests
// as long as the work, clients on a machine of two CPUs with three nodes that copied waited up to 180 ms, with these 25 ms.
func Rest(worked time.Duration) time.Duration { return 4 * worked }

// ShortRest is the same for work that is short as a whole and that a cluster waits for: a node's return with its state.
func ShortRest(worked time.Duration) time.Duration { return worked }
