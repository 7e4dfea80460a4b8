package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// burners are processes that use all the CPU time they get. Each ends when its standard input
// closes at the latest, so that none outlives this process.
type burners struct {
	running []*exec.Cmd
	pipes   []io.Closer
}

// burn starts count processes of a command, which must return when its standard input ends.
func burn(count int, argv []string) (*burners, error) {
	b := new(burners)
	for range count {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start a busy loop: %w", err), b.end())
		}
		b.running, b.pipes = append(b.running, cmd), append(b.pipes, pipe)
	}
	return b, nil
}

// end kills the processes and waits for them.
func (b *burners) end() error {
	var failed error
	for i, cmd := range b.running {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			failed = errors.Join(failed, err)
		}
		_ = cmd.Wait() // it was killed
		b.pipes[i].Close()
	}
	b.running, b.pipes = nil, nil
	return failed
}

// Burn keeps one CPU busy until the time has passed or stop ends.
func Burn(lasts time.Duration, stop io.Reader) {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stop) // an error ends the burner, too
		close(ended)
	}()
	const spins = 1 << 20
	var sum uint64
	for begun := time.Now(); time.Since(begun) < lasts; {
		for i := range uint64(spins) {
			sum += i * i
		}
		select {
		case <-ended:
			return
		default:
		}
	}
	runtime.KeepAlive(sum) // keeps the compiler from removing the loop
}
