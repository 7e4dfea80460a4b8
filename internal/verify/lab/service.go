package lab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Service is a process on a host, beside the host's agent or controller. The lab's end ends it too. Its methods may be
// called concurrently.
type Service struct {
	Name string // of the service and its log, unique in the lab
	lab  *Lab
	host string
	argv []string

	mu      sync.Mutex
	process Process
}

// Service returns a service that has not been started.
func (l *Lab) Service(host, name string, argv []string) *Service {
	return &Service{Name: name, lab: l, host: host, argv: argv}
}

// Start starts the process. It fails if the process is running.
func (s *Service) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process.Alive() {
		return fmt.Errorf("%s is running, as process %d", s.Name, s.process.PID)
	}
	cmd, err := start(nsPath(s.lab.Name, s.host), s.argv, s.lab.LogFile(s.Name))
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	// Read before Wait, which lets the kernel reuse the pid.
	s.process, err = ProcessOf(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // its status is in the log, if anywhere
	if err != nil {
		return fmt.Errorf("%s ended at once: %s", s.Name, s.lab.LastWords(s.Name))
	}
	return nil
}

func (s *Service) current() Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Alive reports whether the process is running.
func (s *Service) Alive() bool { return s.current().Alive() }

// Kill ends the process with SIGKILL and waits until it is gone.
func (s *Service) Kill() error { return s.current().Kill() }

// Stop ends the process with SIGTERM, waits until it is gone, and returns what it has logged meanwhile.
func (s *Service) Stop(within time.Duration) (said string, err error) {
	log, err := os.Open(s.lab.LogFile(s.Name))
	if err != nil {
		return "", err
	}
	defer log.Close()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return "", err
	}
	if err := s.current().end(unix.SIGTERM, int(within.Milliseconds())); err != nil {
		return "", fmt.Errorf("stop %s: %w", s.Name, err)
	}
	text, err := io.ReadAll(log)
	return string(text), err
}

// Use changes the command that the next start runs.
func (s *Service) Use(argv []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.argv = argv
}

// Pause stops the process until [Service.Resume]. It has no effect on a process that has ended.
func (s *Service) Pause() error { return s.current().signal(unix.SIGSTOP) }

// Resume continues a paused process.
func (s *Service) Resume() error { return s.current().signal(unix.SIGCONT) }

// Crashed returns the beginning of a Go crash in the log; empty if there is none.
func (s *Service) Crashed() string {
	text, _ := os.ReadFile(s.lab.LogFile(s.Name)) // absent: never started
	const shown = 2000
	for _, sign := range []string{"\npanic: ", "\nfatal error: ", "\nSIGSEGV", "WARNING: DATA RACE"} {
		if i := bytes.Index(text, []byte(sign)); i >= 0 {
			return string(text[i:min(len(text), i+shown)])
		}
	}
	return ""
}
