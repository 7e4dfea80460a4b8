package xdp

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// waitForPackets waits until all programs that run have ended.
//
// The kernel runs XDP and tc programs with softirqs disabled, so that a thread can only run on a CPU when no program
// is under way there. A thread that has run once on every CPU has outlasted all programs that were under way when it
// set out, after some 10 us a CPU. To wait for the kernel's own grace period, the alternative, takes a hundred times
// as long (BenchmarkQuiesce): a good part of the whole pause for writes in a change of chains.
func (p *Plane) waitForPackets() error {
	p.running.Lock() // the one program that runs at a system call, whether or not the kernel disables softirqs there
	p.running.Unlock()
	err := visitCPUs()
	if errors.Is(err, errNoVisit) {
		err = p.waitForGrace()
	}
	return err
}

// waitForGrace is for machines where a thread's visit proves nothing or is not allowed: the kernel ends an update of a
// map of maps only after all programs that run have ended.
func (p *Plane) waitForGrace() error {
	group, err := newGroup(p.objects.Egress, 1, nil)
	if err != nil {
		return err
	}
	defer group.Close()
	return p.objects.Groups.Put(uint32(groupRowAll), group)
}

// errNoVisit says that no conclusion can be drawn from threads here.
var errNoVisit = errors.New("a thread cannot visit every CPU")

// visitCPUs runs a thread on every CPU that is online. A CPU that comes online meanwhile begins with the new state.
func visitCPUs() error {
	if realtime, err := os.ReadFile("/sys/kernel/realtime"); err == nil && bytes.HasPrefix(realtime, []byte("1")) {
		return errNoVisit // softirqs are preemptible
	}
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return errNoVisit
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(list)))
	if err != nil {
		return err
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here, with its priority and its place
		result <- visit(cpus)
	}()
	return <-result
}

// visit moves the calling thread from CPU to CPU.
func visit(cpus []int) error {
	// Ahead of all that computes there, if that is allowed: then it waits for softirqs only. Never behind the other
	// threads of the process: Go's collector spins until this one reaches a safe point, and from ahead, on the same CPU,
	// it would spin for ever.
	if now, err := unix.SchedGetAttr(0, 0); err == nil && now.Policy != unix.SCHED_FIFO && now.Policy != unix.SCHED_RR {
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	}
	for _, cpu := range cpus {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return errNoVisit // a cgroup forbids the CPU, or it has just gone offline
		}
	}
	return nil
}

// parseCPUs reads a list such as 0-3,6.
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for _, span := range strings.Split(list, ",") {
		from, to, isSpan := strings.Cut(span, "-")
		if !isSpan {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last, err := strconv.Atoi(to)
		if err != nil {
			return nil, err
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
