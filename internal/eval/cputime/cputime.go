// Package cputime reads how much CPU time processes have used.
package cputime

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Of returns the CPU time that a process has used since its start, its ended threads included. The kernel counts it in
// hundredths of a second.
func Of(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const user, system, tick = 11, 12, time.Second / 100 // fields behind the name, and their unit
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat has too few fields", pid)
	}
	var used time.Duration
	for _, i := range []int{user, system} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		used += time.Duration(n) * tick
	}
	return used, nil
}
