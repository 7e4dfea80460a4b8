// Package cputime reads the CPU time of processes.
package cputime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Fields of /proc/PID/stat behind the name, and the unit of CPU times there.
const (
	parentField = 1
	userField   = 11
	systemField = 12
	tick        = time.Second / 100
)

var errFields = errors.New("/proc/PID/stat has too few fields, or other ones")

// stat is one process at a moment.
type stat struct {
	pid, parent int
	used        time.Duration
}

func read(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= systemField {
		return stat{}, errFields
	}
	parent, err := strconv.Atoi(fields[parentField])
	if err != nil {
		return stat{}, errFields
	}
	s := stat{pid: pid, parent: parent}
	for _, i := range []int{userField, systemField} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return stat{}, errFields
		}
		s.used += time.Duration(n) * tick
	}
	return s, nil
}

// Of returns the CPU time that processes have used since their starts, their ended threads included. The kernel counts it
// in hundredths of a second.
func Of(pids ...int) (used time.Duration, err error) {
	for _, pid := range pids {
		s, err := read(pid)
		if err != nil {
			return 0, err
		}
		used += s.used
	}
	return used, nil
}

// Below returns the CPU time that the live descendants of a process have used, except some of them and their own.
func Below(root int, except ...int) (used time.Duration, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	children := make(map[int][]stat)
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		s, err := read(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, err
		}
		children[s.parent] = append(children[s.parent], s)
	}
	for next := []int{root}; len(next) > 0; {
		parent := next[len(next)-1]
		next = next[:len(next)-1]
		for _, s := range children[parent] {
			if !slices.Contains(except, s.pid) {
				used += s.used
				next = append(next, s.pid)
			}
		}
	}
	return used, nil
}

// Own returns the CPU time that this process has used.
func Own() (time.Duration, error) { return Of(os.Getpid()) }
