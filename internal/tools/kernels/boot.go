package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	machineCPUs = 2
	machineMB   = 1536
	tailLines   = 40 // of the console, for a failure

	traceTime = 5 * time.Second // for the output of a kernel after a panic; some kernels then stop
)

// result is the outcome of a machine.
type result struct {
	release                         string
	vectors, random, threads, check string
	processed                       map[string]int // instructions that the verifier processed, by program
	took                            time.Duration
	err                             error
	tail                            string

	begun string // the step that runs
	ended map[string]bool
	dead  func() // called after a panic
}

// steps are those that a machine has to have ended well.
var steps = []string{"processed", "conformance", "threads", "check"}

// qemu is the command that boots an image on any host, without KVM. The kernel passes packets to guest.sh as a
// variable.
func qemu(k kernel, i *image, packets int) []string {
	command, console := []string{"qemu-system-x86_64", "-M", "q35", "-cpu", "max"}, "ttyS0"
	if k.arch == "arm64" { // pointer authentication as QEMU does it fastest
		command, console = []string{"qemu-system-aarch64", "-M", "virt", "-cpu", "max,pauth-impdef=on"}, "ttyAMA0"
	}
	return append(command, "-accel", "tcg,thread=multi", "-smp", fmt.Sprint(machineCPUs), "-m", fmt.Sprint(machineMB),
		"-nographic", "-no-reboot", "-nic", "none", "-kernel", i.kernel, "-initrd", i.initramfs,
		"-append", fmt.Sprintf("console=%s panic=-1 no_timer_check quiet packets=%d", console, packets)) // on a busy host, timers of QEMU look broken
}

// boot runs a machine to its end.
func boot(ctx context.Context, name string, args []string, limit time.Duration, progress *console) *result {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := &result{ended: make(map[string]bool), dead: func() { time.AfterFunc(traceTime, cancel) }}
	defer func() { r.took = time.Since(start) }()
	log, err := os.Create(filepath.Join(cache, name+".log"))
	if err != nil {
		r.err = err
		return r
	}
	defer log.Close()
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	output, err := command.StdoutPipe()
	if err != nil {
		r.err = err
		return r
	}
	command.Stderr = log
	progress.say("%s: booting", name)
	if err := command.Start(); err != nil {
		r.err = fmt.Errorf("%w: scripts/setup.sh kernels installs it", err)
		return r
	}
	r.read(io.TeeReader(output, log), func(line string) {
		progress.say("%s: %s, %.0f s", name, line, time.Since(start).Seconds())
	})
	err = command.Wait()
	switch {
	case r.err != nil: // a step failed
	case ctx.Err() != nil:
		r.err = fmt.Errorf("stopped after %v while it ran %q: MINUTES=80 gives it more time", limit, r.begun)
	case err != nil:
		r.err = fmt.Errorf("%s: %w", args[0], err)
	default:
		r.err = r.unfinished()
	}
	return r
}

// unfinished is an error for the first step that has not ended.
func (r *result) unfinished() error {
	for _, s := range steps {
		if !r.ended[s] {
			return fmt.Errorf("the machine went down before the end of step %q", s)
		}
	}
	return nil
}

// read follows the console to its end.
func (r *result) read(console io.Reader, report func(line string)) {
	var last []string
	lines := bufio.NewScanner(console)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		if last = append(last, line); len(last) > tailLines {
			last = last[1:]
		}
		if _, said, ok := strings.Cut(line, "@@ "); ok {
			r.take(said, report)
		} else if strings.HasSuffix(line, "random packets agree") {
			report(line)
		} else if strings.Contains(line, "Kernel panic") {
			r.err = errors.Join(r.err, errors.New(line))
			r.dead()
		}
	}
	r.tail = strings.Join(last, "\n")
}

// take is one line of guest.sh.
func (r *result) take(said string, report func(line string)) {
	word, rest, _ := strings.Cut(said, " ")
	name, rest, _ := strings.Cut(rest, " ")
	switch word {
	case "release":
		r.release = name
		report("Linux " + name)
	case "begin":
		r.begun = name
	case "output":
		if err := r.note(name, []byte(rest)); err != nil {
			r.err = errors.Join(r.err, fmt.Errorf("step %q: %w", name, err))
		}
	case "end":
		if rest != "0" {
			r.err = errors.Join(r.err, fmt.Errorf("step %q ended with status %s", name, rest))
		}
		r.ended[name] = true
		report(name + " ended with status " + rest)
	}
}

// note stores the findings of a step for the table.
func (r *result) note(step string, output []byte) error {
	switch step {
	case "processed":
		from, to := bytes.IndexByte(output, '{'), bytes.LastIndexByte(output, '}') // of what the test logged
		if from < 0 || to < from {
			return fmt.Errorf("no counts in %q", output)
		}
		if err := json.Unmarshal(output[from:to+1], &r.processed); err != nil {
			return fmt.Errorf("%w in %q", err, output)
		}
	case "conformance":
		var found struct {
			Passed, Failed, Skipped int
			RandomPackets           int `json:"random_packets"`
		}
		if err := json.Unmarshal(output, &found); err != nil {
			return fmt.Errorf("%w in %q", err, output)
		}
		r.vectors = fmt.Sprintf("%d of %d", found.Passed, found.Passed+found.Failed+found.Skipped)
		r.random = fmt.Sprint(found.RandomPackets)
	case "threads":
		r.threads = strings.ToLower(string(output))
	case "check":
		var found struct {
			Ops          int
			Linearizable bool
		}
		if err := json.Unmarshal(output, &found); err != nil {
			return fmt.Errorf("%w in %q", err, output)
		}
		r.check = fmt.Sprintf("%d ops, linearizable: %v", found.Ops, found.Linearizable)
	}
	return nil
}
