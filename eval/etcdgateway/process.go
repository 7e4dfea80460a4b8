package etcdgateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/eval/cputime"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
)

// servesMessages are in the line that a gateway logs when it serves: in front of an etcd or in memory, and on disks. The
// last one is mem_etcd's.
var servesMessages = []string{"started gRPC proxy", "serves a keyspace on disks", "Starting gRPC server"}

const (
	// startWithin bounds a gateway's start.
	startWithin = 30 * time.Second
)

// Process is a gateway that serves etcd's clients.
type Process struct {
	address string
	kill    func() // once
	command *exec.Cmd
	keeper  *thread.Thread // parent of the process, which the kernel ends with it
	serves  chan struct{}  // closed when it does
	over    chan struct{}  // closed at the end of its log
	log     []string       // its last lines; valid after over is closed
}

// StartProcess starts the command line that a function returns for an address to listen on, and waits until the gateway
// serves there.
func StartProcess(ctx context.Context, gateway func(listen string) []string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	argv := gateway(address)
	g := &Process{
		address: address, command: exec.Command(argv[0], argv[1:]...), serves: make(chan struct{}), over: make(chan struct{}),
	}
	g.kill = sync.OnceFunc(g.end)
	g.command.Stdout, g.command.Stderr = write, write
	g.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if g.keeper, err = thread.Start(func() error { return nil }); err == nil {
		err = g.keeper.Do(g.command.Start)
	}
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	go g.follow(read)
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	select {
	case <-g.serves:
		return g, nil
	case <-g.over:
		err = fmt.Errorf("the gateway ended: %s", strings.Join(g.log, "; "))
	case <-ctx.Done():
		err = fmt.Errorf("the gateway does not serve: %w", ctx.Err())
	}
	g.Kill()
	return nil, err
}

// FreeAddress returns a free TCP address of loopback, which another process may take.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// follow reads the log.
func (g *Process) follow(log io.ReadCloser) {
	const kept = 5
	defer close(g.over)
	defer log.Close()
	serves := g.serves
	for lines := bufio.NewScanner(log); lines.Scan(); {
		g.log = append(g.log, lines.Text())
		g.log = g.log[max(0, len(g.log)-kept):]
		line := lines.Text()
		if serves != nil && slices.ContainsFunc(servesMessages, func(m string) bool { return strings.Contains(line, m) }) {
			close(serves)
			serves = nil
		}
	}
}

// Address is where the gateway serves.
func (g *Process) Address() string { return g.address }

// PID is the process.
func (g *Process) PID() int { return g.command.Process.Pid }

// Ended returns an error with the last lines of the log if the process has ended.
func (g *Process) Ended() error {
	select {
	case <-g.over:
		return fmt.Errorf("the gateway at %s ended: %s", g.address, strings.Join(g.log, "; "))
	default:
		return nil
	}
}

// Kill ends the process as kill -9 does, and waits until it is gone.
func (g *Process) Kill() { g.kill() }

func (g *Process) end() {
	_ = g.command.Process.Kill() // fails only if it has ended
	_ = g.command.Wait()
	<-g.over
	g.keeper.Close()
}

// cpu returns the CPU time that the process has used.
func (g *Process) cpu() (time.Duration, error) { return cputime.Of(g.command.Process.Pid) }

// hits counts the reads that the chain has answered.
func (g *Process) hits(ctx context.Context) (gatewaycheck.Hits, error) {
	return gatewaycheck.ReadHits(ctx, g.address)
}

// profile writes a CPU profile of the gateway to a file.
func (g *Process) profile(ctx context.Context, file string, d time.Duration) error {
	seconds := max(1, int(d.Seconds()))
	text, err := g.page(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds), d+startWithin)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func (g *Process) page(ctx context.Context, path string, within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.address+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the gateway's page %s: %s", path, answer.Status)
	}
	return text, err
}
