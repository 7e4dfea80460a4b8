package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/eval/cpushare"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

const (
	// readyMessage is the log text of a member that has joined and serves clients.
	readyMessage = "ready to serve client requests"
	// readyWithin bounds a start: eleven members at once on a busy machine take ten seconds.
	readyWithin = 90 * time.Second
)

// member is one server.
type member struct {
	name    string
	command *exec.Cmd
	share   *cpushare.Share // nil: no limit
	ready   chan struct{}   // closed when the log contains readyMessage
	over    chan struct{}   // closed at the end of the log
	log     []string        // its last lines; valid after over is closed
}

// startMember starts a member. The kernel ends it when this process ends.
func (c *Cluster) startMember(i int) (*member, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	m := &member{name: memberName(i), ready: make(chan struct{}), over: make(chan struct{})}
	m.command = exec.Command(c.options.Binary, append(slices.Clone(c.options.Command), c.arguments(i)...)...)
	m.command.Stderr = write
	m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.options.Share > 0 {
		m.command.Env = append(os.Environ(), "GOMAXPROCS=1")
		if m.share, err = cpushare.New(c.options.Share); err != nil {
			return nil, errors.Join(err, read.Close(), write.Close())
		}
	}
	err = c.keeper.Do(func() error {
		if err := thread.Enter(c.options.Sites[i].Namespace); err != nil {
			return err
		}
		return m.command.Start()
	})
	write.Close()
	if err != nil {
		read.Close()
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), m.closeShare())
	}
	go m.follow(read)
	return m, nil
}

// limit applies the member's CPU limit.
func (m *member) limit() error {
	if m.share == nil {
		return nil
	}
	return m.share.Add(m.command.Process.Pid)
}

// follow reads the log.
func (m *member) follow(log io.ReadCloser) {
	const kept = 3
	defer close(m.over)
	defer log.Close()
	reader, ready := bufio.NewReader(log), m.ready
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		m.log = append(m.log, strings.TrimSpace(line))
		m.log = m.log[max(0, len(m.log)-kept):]
		if ready != nil && strings.Contains(line, readyMessage) {
			close(ready)
			ready = nil
		}
	}
}

// await waits until the member serves clients.
func (m *member) await(ctx context.Context) error {
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	select {
	case <-m.ready:
		return nil
	case <-m.over:
		return m.ended()
	case <-limit.C:
		return fmt.Errorf("etcd member %s did not start within %v", m.name, readyWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended is the error of a member that has ended; valid after over is closed.
func (m *member) ended() error {
	return fmt.Errorf("etcd member %s ended: %s", m.name, strings.Join(m.log, "\n"))
}

func (m *member) kill() error {
	_ = m.command.Process.Kill() // fails only if it has ended
	_ = m.command.Wait()
	<-m.over
	return m.closeShare()
}

func (m *member) closeShare() error {
	if m.share == nil {
		return nil
	}
	return m.share.Close()
}

func memberName(i int) string { return fmt.Sprintf("m%d", i+1) }

// Ports of clients and of other members, at each member's own address.
const (
	clientPort = 2379
	peerPort   = 2380
)

func (c *Cluster) clientURL(i int) string { return c.url(i, clientPort) }
func (c *Cluster) peerURL(i int) string   { return c.url(i, peerPort) }
func (c *Cluster) url(i, port int) string {
	return fmt.Sprintf("http://%s", hostPort(c.options.Sites[i].Addr, port))
}

// arguments returns a member's command line.
func (c *Cluster) arguments(i int) []string {
	var cluster []string
	for k := range c.options.Members {
		cluster = append(cluster, memberName(k)+"="+c.peerURL(k))
	}
	args := []string{
		"--name", memberName(i), "--data-dir", filepath.Join(c.dir, memberName(i)),
		"--listen-client-urls", c.clientURL(i), "--advertise-client-urls", c.clientURL(i),
		"--listen-peer-urls", c.peerURL(i), "--initial-advertise-peer-urls", c.peerURL(i),
		"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", filepath.Base(c.dir),
	}
	return append(args, c.options.flags()...)
}

// flags returns the flags that change how a member works.
func (o *Options) flags() []string {
	var flags []string
	if o.Heartbeat > 0 {
		flags = append(flags, fmt.Sprintf("--heartbeat-interval=%d", o.Heartbeat.Milliseconds()))
	}
	if o.Election > 0 {
		flags = append(flags, fmt.Sprintf("--election-timeout=%d", o.Election.Milliseconds()))
	}
	if o.Profiles {
		flags = append(flags, "--enable-pprof")
	}
	return append(flags, o.Flags...)
}
