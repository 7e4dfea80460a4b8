package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/agent"
)

// agentPatience bounds the wait for an agent's API: the agent first loads and verifies BPF
// programs.
const (
	agentPatience = 3 * time.Minute
	agentRetry    = 20 * time.Millisecond
)

// startAgents starts the controllers, then the agents of all nodes that are not idle, and waits
// until each answers.
func (l *Lab) startAgents(ctx context.Context, s *state, progress func(string)) error {
	for _, role := range []Role{RoleController, RoleNode} {
		hosts := slices.DeleteFunc(l.Plan.With(role), func(h Host) bool {
			return len(s.Commands[h.Name]) == 0 || slices.Contains(l.options.Idle, h.Name)
		})
		if len(hosts) == 0 {
			continue
		}
		progress(fmt.Sprintf("%d %s", len(hosts), map[Role]string{RoleController: "controllers", RoleNode: "agents"}[role]))
		running := map[string]<-chan error{}
		for _, h := range hosts {
			if err := l.startBeside(h, role); err != nil {
				return err
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
	}
	return nil
}

// startBeside starts what runs beside a node's agent.
func (l *Lab) startBeside(h Host, role Role) error {
	if role != RoleNode || l.options.Beside == nil {
		return nil
	}
	argv := l.options.Beside(l, h)
	if argv == nil {
		return nil
	}
	return l.Service(h.Name, h.Name+"-beside", argv).Start()
}

// startAgent starts a node's agent or a controller and records its process. The channel receives
// its exit.
func (l *Lab) startAgent(s *state, host string) (<-chan error, error) {
	argv := s.Commands[host]
	if len(argv) == 0 {
		return nil, fmt.Errorf("nothing runs on %s in this lab", host)
	}
	var logged int64
	if info, err := os.Stat(logFile(l.Name, host)); err == nil {
		logged = info.Size()
	}
	cmd, err := start(nsPath(l.Name, host), argv, logFile(l.Name, host))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", l.serviceOf(host), err)
	}
	exited := make(chan error, 1)
	go func() {
		exited <- cmd.Wait()
		select {
		case l.exits <- host:
		default: // no listener
		}
	}()
	p, err := ProcessOf(cmd.Process.Pid)
	if err != nil {
		return nil, l.agentFailed(host, err)
	}
	l.running.Lock()
	s.Agents[host], l.logged[host] = p, logged
	l.running.Unlock()
	return exited, s.write()
}

// awaitAgent waits until an agent serves its API and looks after its node, or says that it waits for nodes that do not
// run.
func (l *Lab) awaitAgent(ctx context.Context, host string, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	retry := time.NewTicker(agentRetry)
	defer retry.Stop()
	for {
		served := l.Do(host, func() error { return l.greet(ctx, host) })
		if served == nil && l.settled(host) {
			return nil
		}
		select {
		case err := <-exited:
			return l.agentFailed(host, err)
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve (%w):\n  %s", l.serviceOf(host), errors.Join(served, ctx.Err()),
				l.LastWords(host))
		case <-retry.C:
		}
	}
}

// settled reports whether a process that serves its API has nothing more to wait for: a controller, a node that is up,
// and one without state while another node does not run (C10).
func (l *Lab) settled(host string) bool {
	if h, ok := l.Plan.Host(host); ok && h.Role == RoleController {
		return true
	}
	l.running.Lock()
	from := l.logged[host]
	l.running.Unlock()
	text, err := os.ReadFile(logFile(l.Name, host))
	if err != nil || int64(len(text)) < from {
		return false
	}
	text = text[from:]
	if bytes.Contains(text, []byte(agent.UpMessage)) {
		return true
	}
	return bytes.Contains(text, []byte(agent.WaitMessage)) &&
		slices.ContainsFunc(l.Plan.With(RoleNode), func(h Host) bool { return !l.AgentAlive(h.Name) })
}

// greet connects to an agent and waits for its first byte: an HTTP/2 server sends its settings
// first.
func (l *Lab) greet(ctx context.Context, host string) error {
	h, err := l.Host(host)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", h.apiAddr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if l.options.TLS { // a server sends nothing before its client does
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// agentFailed quotes the end of an agent's log, because the log is removed with the lab.
func (l *Lab) agentFailed(host string, err error) error {
	last := l.LastWords(host)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("%s failed: %w\n  %s", l.serviceOf(host), err, last)
	}
	return fmt.Errorf("%s ended at once:\n  %s", l.serviceOf(host), last)
}

// LastWords returns the end of the log of an agent or a controller.
func (l *Lab) LastWords(host string) string {
	const lines = 5
	text, _ := os.ReadFile(logFile(l.Name, host))
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n  ")))
}

// AgentAlive reports whether a node's agent runs.
func (l *Lab) AgentAlive(host string) bool { return l.Agent(host).Alive() }

// Agent returns the process of a node's agent.
func (l *Lab) Agent(host string) Process {
	l.running.Lock()
	defer l.running.Unlock()
	return l.state.Agents[host]
}

// serviceOf describes the service of a host.
func (l *Lab) serviceOf(host string) string {
	if h, ok := l.Plan.Host(host); ok && h.Role == RoleController {
		return "the controller " + host
	}
	return "the agent of " + host
}

// servedHost returns a host that has an agent or a controller.
func (l *Lab) servedHost(name string) (Host, error) {
	h, err := l.Host(name)
	if err == nil && h.Role != RoleNode && h.Role != RoleController {
		err = fmt.Errorf("%s is not a node or controller but a %s", name, h.Role)
	}
	return h, err
}

// nodeHost returns a node's host.
func (l *Lab) nodeHost(name string) (Host, error) {
	h, err := l.Host(name)
	if err == nil && h.Role != RoleNode {
		err = fmt.Errorf("%s is not a node but a %s", name, h.Role)
	}
	return h, err
}

// KillAgent kills only a node's agent or a controller: a data plane in the kernel keeps answering.
func (l *Lab) KillAgent(ctx context.Context, host string) error {
	if _, err := l.servedHost(host); err != nil {
		return err
	}
	return l.change(ctx, func(s *state) error { return s.Agents[host].Kill() })
}

// EndAgent lets a node's agent or a controller end in its own time, as one that is replaced by another version.
func (l *Lab) EndAgent(ctx context.Context, host string) error {
	if _, err := l.servedHost(host); err != nil {
		return err
	}
	return l.change(ctx, func(s *state) error { return s.Agents[host].Terminate() })
}

// StartAgent starts a node's agent or a controller again and waits until it answers. It takes over
// the state of its predecessor: the pins or the data directory.
func (l *Lab) StartAgent(ctx context.Context, host string) error {
	exited, err := l.SpawnAgent(ctx, host)
	if err != nil {
		return err
	}
	return l.awaitAgent(ctx, host, exited)
}

// SpawnAgent is [Lab.StartAgent] without the wait. The channel receives the exit of the process.
func (l *Lab) SpawnAgent(ctx context.Context, host string) (exited <-chan error, err error) {
	if _, err := l.servedHost(host); err != nil {
		return nil, err
	}
	err = l.change(ctx, func(s *state) error {
		if s.Agents[host].Alive() {
			return fmt.Errorf("%s is running, as process %d", l.serviceOf(host), s.Agents[host].PID)
		}
		exited, err = l.startAgent(s, host)
		return err
	})
	return exited, err
}
