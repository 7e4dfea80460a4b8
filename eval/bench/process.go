package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// startWithin bounds an agent's start. The kernel verifies its programs first, which takes long on a loaded machine.
const startWithin = 3 * time.Minute

// process is a node's agent process.
type process struct {
	command *exec.Cmd
	up      chan struct{} // closed when the log contains the ready text
	over    chan struct{} // closed at the end of the log
	log     []string      // its last lines; valid after over is closed
}

// startProcess runs a command line on the keeper's thread. The process is up when its log contains
// ready. The kernel ends it with the keeper.
func startProcess(k *thread.Thread, argv []string, cluster *os.File, ready string) (*process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(argv[0], argv[1:]...), up: make(chan struct{}), over: make(chan struct{})}
	p.command.Stderr = write
	p.command.ExtraFiles = []*os.File{cluster}
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = k.Do(p.command.Start)
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go p.follow(read, ready)
	return p, nil
}

// clusterArgument is the path under which the process opens the inherited file.
const clusterArgument = "/proc/self/fd/3"

func (p *process) follow(log io.ReadCloser, ready string) {
	const kept = 5
	defer close(p.over)
	defer log.Close()
	up := p.up
	for lines := bufio.NewScanner(log); lines.Scan(); {
		p.log = append(p.log, lines.Text())
		p.log = p.log[max(0, len(p.log)-kept):]
		if up != nil && strings.Contains(lines.Text(), ready) {
			close(up)
			up = nil
		}
	}
}

// await waits until the process is up.
func (p *process) await(ctx context.Context) error {
	limit := time.NewTimer(startWithin)
	defer limit.Stop()
	select {
	case <-p.up:
		return nil
	case <-p.over:
		return fmt.Errorf("the agent ended: %s", strings.Join(p.log, "; "))
	case <-limit.C:
		return fmt.Errorf("the agent did not start within %v", startWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	_ = p.command.Process.Kill() // fails only if it has ended
	_ = p.command.Wait()
	<-p.over
}
