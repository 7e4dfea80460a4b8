package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// StartNode starts a node that was killed or powered off, with an empty data plane. If its agent
// may not rejoin a static chain, no data plane remains.
func (l *Lab) StartNode(ctx context.Context, host string) error {
	if l.AgentAlive(host) {
		return fmt.Errorf("%s is running, its agent as process %d", host, l.Agent(host).PID)
	}
	if err := l.setPower(host, true); err != nil {
		return err
	}
	err := l.StartAgent(ctx, host)
	if err != nil && len(l.state.Commands[host]) > 0 {
		err = errors.Join(err, l.KillNode(context.WithoutCancel(ctx), host))
	}
	return err
}

// SwitchOn powers a host on and starts its service without waiting for it.
func (l *Lab) SwitchOn(ctx context.Context, host string) error {
	if err := l.setPower(host, true); err != nil {
		return err
	}
	_, err := l.SpawnAgent(ctx, host)
	return err
}

// KillNode kills a node's agent and removes its data plane from the kernel, with its objects. The
// host still routes packets of others.
func (l *Lab) KillNode(ctx context.Context, host string) error {
	if _, err := l.nodeHost(host); err != nil {
		return err
	}
	if err := l.KillAgent(ctx, host); err != nil {
		return err
	}
	return xdp.Remove(l.PinDir(host))
}

// PowerOff simulates a power failure: the node stops sending and receiving at once, then loses its
// agent and its data plane with all stored state. [Lab.StartNode] reverts it.
func (l *Lab) PowerOff(ctx context.Context, host string) error {
	if _, err := l.nodeHost(host); err != nil {
		return err
	}
	if err := l.setPower(host, false); err != nil {
		return err
	}
	return l.KillNode(ctx, host)
}

// setPower passes or drops all frames of a host. It has no effect in a lab without wires.
func (l *Lab) setPower(host string, on bool) error {
	if _, err := l.Host(host); err != nil {
		return err
	}
	links, err := l.selected(Where{Host: host})
	if err != nil {
		return err
	}
	if l.options.Direct && on {
		return nil
	}
	return l.changeRules(links, func(r *wireRule) error {
		if r.Off = 1; on {
			r.Off = 0
		}
		return nil
	})
}

// Pause stops the process of a node's agent or a controller until [Lab.Resume], as if the machine
// had no CPU time for it.
func (l *Lab) Pause(host string) error { return l.signal(host, unix.SIGSTOP) }

// Resume continues a paused process.
func (l *Lab) Resume(host string) error { return l.signal(host, unix.SIGCONT) }

func (l *Lab) signal(host string, signal unix.Signal) error {
	if _, err := l.servedHost(host); err != nil {
		return err
	}
	if !l.AgentAlive(host) {
		return fmt.Errorf("%s is not running", l.serviceOf(host))
	}
	return l.Agent(host).signal(signal)
}

// LoseDisk kills a controller and deletes its data. Its later starts get these arguments too.
func (l *Lab) LoseDisk(ctx context.Context, host string, arguments ...string) error {
	h, err := l.Host(host)
	if err != nil {
		return err
	}
	if h.Role != RoleController {
		return fmt.Errorf("%s is not a controller but a %s", host, h.Role)
	}
	if err := l.KillAgent(ctx, host); err != nil {
		return err
	}
	if err := os.RemoveAll(l.DataDir(host)); err != nil {
		return err
	}
	return l.change(ctx, func(s *state) error {
		for _, argument := range arguments {
			if !slices.Contains(s.Commands[host], argument) {
				s.Commands[host] = append(s.Commands[host], argument)
			}
		}
		return s.write()
	})
}
