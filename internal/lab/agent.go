package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/netcraq/netcraq/internal/dataplane/xdp"
)

// agentPatience bounds the wait for an agent's API: it loads and verifies BPF programs first.
const (
	agentPatience = 30 * time.Second
	agentRetry    = 20 * time.Millisecond
)

// startAgents starts the agents of all nodes and waits until each can be spoken to.
func (l *Lab) startAgents(ctx context.Context, s *state, progress func(string)) error {
	running := map[string]<-chan error{}
	for _, h := range l.Plan.With(RoleNode) {
		if len(s.Commands[h.Name]) == 0 {
			continue
		}
		if len(running) == 0 {
			progress(fmt.Sprintf("%d agents", len(s.Commands)))
		}
		exited, err := l.startAgent(s, h.Name)
		if err != nil {
			return err
		}
		running[h.Name] = exited
	}
	for name, exited := range running {
		if err := l.awaitAgent(ctx, name, exited); err != nil {
			return err
		}
	}
	return nil
}

// startAgent starts a node's agent and writes down who it is. The channel tells when it has exited.
func (l *Lab) startAgent(s *state, host string) (<-chan error, error) {
	argv := s.Commands[host]
	if len(argv) == 0 {
		return nil, fmt.Errorf("%s has no agent in this lab", host)
	}
	cmd, err := start(nsPath(l.Name, host), argv, logFile(l.Name, host))
	if err != nil {
		return nil, fmt.Errorf("start the agent of %s: %w", host, err)
	}
	exited := make(chan error, 1)
	go func() {
		exited <- cmd.Wait()
		select {
		case l.exits <- host:
		default: // nobody listens
		}
	}()
	p, err := processOf(cmd.Process.Pid)
	if err != nil {
		return nil, l.agentFailed(host, err)
	}
	s.Agents[host] = p
	return exited, s.write()
}

// awaitAgent waits until an agent's API is served, which is after the agent has configured its plane.
func (l *Lab) awaitAgent(ctx context.Context, host string, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	retry := time.NewTicker(agentRetry)
	defer retry.Stop()
	for {
		served := l.Do(host, func() error { return l.greet(ctx, host) })
		if served == nil {
			return nil
		}
		select {
		case err := <-exited:
			return l.agentFailed(host, err)
		case <-ctx.Done():
			return fmt.Errorf("the agent of %s does not answer (%w): %w", host, served, ctx.Err())
		case <-retry.C:
		}
	}
}

// greet connects to an agent and waits for a sign of life: in HTTP/2 the server speaks without being asked.
func (l *Lab) greet(ctx context.Context, host string) error {
	node, _ := l.Cluster().Node(host)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", node.APIAddr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// agentFailed quotes the end of an agent's log, which is about to be removed with the lab.
func (l *Lab) agentFailed(host string, err error) error {
	const lines = 5
	text, _ := os.ReadFile(logFile(l.Name, host))
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	last := bytes.Join(all[max(0, len(all)-lines):], []byte("\n  "))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("the agent of %s failed: %w\n  %s", host, err, last)
	}
	return fmt.Errorf("the agent of %s ended at once:\n  %s", host, last)
}

// AgentAlive reports whether a node's agent runs.
func (l *Lab) AgentAlive(host string) bool { return l.state.Agents[host].Alive() }

// Agent returns the process of a node's agent.
func (l *Lab) Agent(host string) Process { return l.state.Agents[host] }

func (l *Lab) nodeHost(name string) (Host, error) {
	h, err := l.Host(name)
	if err == nil && h.Role != RoleNode {
		err = fmt.Errorf("%s is no node but a %s", name, h.Role)
	}
	return h, err
}

// KillAgent kills a node's agent and nothing else: a data plane in the kernel goes on answering.
func (l *Lab) KillAgent(ctx context.Context, host string) error {
	if _, err := l.nodeHost(host); err != nil {
		return err
	}
	return l.change(ctx, func(s *state) error { return s.Agents[host].kill() })
}

// StartAgent starts a node's agent again and waits until it is there. It finds what its predecessor has pinned.
func (l *Lab) StartAgent(ctx context.Context, host string) error {
	if _, err := l.nodeHost(host); err != nil {
		return err
	}
	return l.change(ctx, func(s *state) error {
		if s.Agents[host].Alive() {
			return fmt.Errorf("the agent of %s is running, as process %d", host, s.Agents[host].PID)
		}
		exited, err := l.startAgent(s, host)
		if err != nil {
			return err
		}
		return l.awaitAgent(ctx, host, exited)
	})
}

// StartNode starts a node that was killed, empty. If its agent finds that it cannot come back into the chain, no data
// plane is left either.
func (l *Lab) StartNode(ctx context.Context, host string) error {
	if l.AgentAlive(host) {
		return fmt.Errorf("%s is running, its agent as process %d", host, l.Agent(host).PID)
	}
	err := l.StartAgent(ctx, host)
	if err != nil && len(l.state.Commands[host]) > 0 {
		err = errors.Join(err, l.KillNode(context.WithoutCancel(ctx), host))
	}
	return err
}

// KillNode kills a node's agent and takes its data plane out of the kernel: its objects are gone. The host still
// routes others' packets.
func (l *Lab) KillNode(ctx context.Context, host string) error {
	if err := l.KillAgent(ctx, host); err != nil {
		return err
	}
	return xdp.Remove(l.PinDir(host))
}
