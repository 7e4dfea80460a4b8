package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readyWithin = 60 * time.Second // a Java VM starts slowly on a busy machine
	readyRetry  = 20 * time.Millisecond
)

// process is a server: a child of this process in its own process group.
type process struct {
	command *exec.Cmd
	log     string        // path of the log file
	ended   chan struct{} // closed when the child has been waited for
}

// run starts a server on the i-th host with its own working directory in memory. Close ends it.
func (n *network) run(i int, argv ...string) (*process, error) {
	_, host := n.host(i)
	dir, err := n.directory(i)
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(argv[0], argv[1:]...), log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command.Dir, p.command.Stdout, p.command.Stderr = dir, log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		defer close(p.ended)
		// The kernel ends a child with the thread that started it, so this thread lives as long as
		// the child.
		err := n.lab.Do(host, func() error {
			if err := p.command.Start(); err != nil {
				return err
			}
			started <- nil
			_ = p.command.Wait() // its log tells why it ended
			return nil
		})
		if err != nil {
			started <- err
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	n.onClose(p.kill)
	return p, nil
}

// directory returns the directory of the i-th server; it is removed with the lab.
func (n *network) directory(i int) (string, error) {
	_, host := n.host(i)
	dir := n.lab.DataDir(host)
	return dir, os.MkdirAll(dir, 0o777)
}

// kill ends the server and all processes that it started.
func (p *process) kill() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := unix.Kill(-p.command.Process.Pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end %s: %w", p.command.Path, err)
	}
	<-p.ended
	return nil
}

// await waits until ready succeeds.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	retry := time.NewTicker(readyRetry)
	defer retry.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", filepath.Base(p.command.Path), p.goAwayTimeout())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve (%w): %s", filepath.Base(p.command.Path), err, p.goAwayTimeout())
		case <-retry.C:
		}
	}
}

// goAwayTimeout returns the end of the server's log.
func (p *process) goAwayTimeout() string {
	const kept = 600
	text, _ := os.ReadFile(p.log)
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-kept):])
}
