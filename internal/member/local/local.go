// Package local runs `netcraq etcd` as a process, as a cluster of one member beside a chain: to try things out. Its
// data goes when it ends.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/program"
	"github.com/netcraq/netcraq/internal/platform/owned"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

const (
	// dirPrefix begins the names of directories for data.
	dirPrefix = "netcraq-etcd-"
	// readingWithin bounds how long a member may take to read through the chain.
	readingWithin = time.Minute
	// stopWithin bounds how long a member may take to end. Its data is removed in any case.
	stopWithin = 10 * time.Second
)

// Options say what to start.
type Options struct {
	Program string    // that has the command etcd
	Listen  string    // address for clients; port 0: any free one
	Chain   string    // its cluster file
	Pins    string    // directory with the pins of its nodes; empty: reads use the network
	Log     io.Writer // of etcd's log; nil: it is shown if the member fails
}

// Member is a member that reads through a chain.
type Member struct {
	dir, address string
	process      *os.Process
	ended        chan error // closed after the error of the process
}

// Addr is where the member serves clients.
func (m *Member) Addr() string { return m.address }

// DataDir is the data directory.
func (m *Member) DataDir() string { return filepath.Join(m.dir, "data") }

func (m *Member) logFile() string { return filepath.Join(m.dir, "log") }

// Start starts a member and returns when it reads through the chain. Whoever starts it calls [Member.Serve].
func Start(ctx context.Context, o Options) (_ *Member, err error) {
	m := &Member{ended: make(chan error, 1)}
	if m.address, err = withPort(o.Listen); err != nil {
		return nil, err
	}
	if m.dir, err = owned.Dir(os.TempDir(), dirPrefix, os.RemoveAll); err != nil {
		return nil, err
	}
	if err = m.start(o); err == nil {
		err = m.awaitReading(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// withPort returns an address with a port that is free in the place of port 0.
func withPort(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start starts the process. The kernel ends it if this one is killed.
func (m *Member) start(o Options) error {
	log, err := os.Create(m.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	const peer = "http://127.0.0.1:0" // there is none
	level := "warn"
	if o.Log != nil {
		level = "info"
	}
	c := exec.Command(o.Program, "etcd", "--name=m1", "--data-dir="+m.DataDir(), "--unsafe-no-fsync", "--log-level="+level,
		"--listen-client-urls=http://"+m.address, "--advertise-client-urls=http://"+m.address,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=m1="+peer,
		"--chain-cluster="+o.Chain, "--chain-pins="+o.Pins)
	c.Stdout, c.Stderr = log, log
	if o.Log != nil {
		c.Stdout, c.Stderr = o.Log, o.Log
	}
	// In a group of its own Ctrl-C does not reach it: it ends before its chain does.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		defer close(m.ended)
		m.ended <- thread.Do(func() error { // Pdeathsig is about the thread
			err := c.Start()
			started <- err
			if err != nil {
				return err
			}
			return c.Wait()
		})
	}()
	if err := <-started; err != nil {
		return err
	}
	m.process = c.Process
	return nil
}

// awaitReading returns when the member reads through the chain.
func (m *Member) awaitReading(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readingWithin)
	defer cancel()
	for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); ; {
		s, err := program.Ask(ctx, m.DataDir(), "status")
		if err == nil && s.State == core.On.String() && s.Reading {
			return nil
		}
		select {
		case err := <-m.ended:
			return m.failed(err)
		default:
		}
		if !pauses.Wait(ctx) {
			return fmt.Errorf("the etcd does not read through the chain: %w%s", ctx.Err(), m.lastLines())
		}
	}
}

// failed returns the error of a member that ended by itself.
func (m *Member) failed(err error) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("the etcd has ended: %w%s", err, m.lastLines())
}

// lastLines returns the end of the log, which goes with the directory.
func (m *Member) lastLines() string {
	const most = 3
	text, err := os.ReadFile(m.logFile())
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	if err != nil || lines[0] == "" {
		return ""
	}
	return "; its log ends with:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// Serve serves until ctx ends, and clears away everything.
func (m *Member) Serve(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case ended := <-m.ended:
		err = m.failed(ended)
	}
	return errors.Join(err, m.stop())
}

// stop ends the process and removes its data.
func (m *Member) stop() error {
	if m.process != nil {
		_ = m.process.Signal(syscall.SIGTERM) // it may have ended
		late := time.AfterFunc(stopWithin, func() { _ = m.process.Kill() })
		defer late.Stop()
		for range m.ended { // until it is closed
			continue
		}
	}
	return os.RemoveAll(m.dir)
}
