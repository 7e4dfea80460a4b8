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
)

// startWithin is how long an agent may take until it says that it is up.
const startWithin = 20 * time.Second

// process is a node's agent, a process of its own.
type process struct {
	command *exec.Cmd
	up      chan struct{} // closed when the log said so
	over    chan struct{} // closed when the log has ended
	log     []string      // its last lines; to be read after over
}

// startProcess runs a command line on the keeper's thread; ready is the text in its log that says that it is up. The
// kernel ends the process with the keeper.
func startProcess(k *keeper, argv []string, cluster *os.File, ready string) (*process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(argv[0], argv[1:]...), up: make(chan struct{}), over: make(chan struct{})}
	p.command.Stderr = write
	p.command.ExtraFiles = []*os.File{cluster}
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = k.do(p.command.Start)
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go p.follow(read, ready)
	return p, nil
}

// clusterArgument is how the process opens the file that it inherits.
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
		return fmt.Errorf("the agent did not come up within %v", startWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends the process at once, as kill -9 does.
func (p *process) kill() {
	_ = p.command.Process.Kill() // fails only if it has ended
	_ = p.command.Wait()
	<-p.over
}
