package lab

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// StartNode starts a node that was killed or has no power, empty. If its agent finds that it cannot come back into a static
// chain, no data plane is left either.
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

// SwitchOn gives a host its power and starts what belongs there, and does not wait until it answers.
func (l *Lab) SwitchOn(ctx context.Context, host string) error {
	if err := l.setPower(host, true); err != nil {
		return err
	}
	_, err := l.SpawnAgent(ctx, host)
	return err
}

// KillNode kills a node's agent and takes its data plane out of the kernel: its objects are gone. The host still
// routes others' packets.
func (l *Lab) KillNode(ctx context.Context, host string) error {
	if _, err := l.nodeHost(host); err != nil {
		return err
	}
	if err := l.KillAgent(ctx, host); err != nil {
		return err
	}
	return xdp.Remove(l.PinDir(host))
}

// PowerOff is what a node without power does: from one moment to the next it sends and receives nothing more, then its
// agent and its data plane are gone, with all they stored. [Lab.StartNode] ends it.
func (l *Lab) PowerOff(ctx context.Context, host string) error {
	if _, err := l.nodeHost(host); err != nil {
		return err
	}
	if err := l.setPower(host, false); err != nil {
		return err
	}
	return l.KillNode(ctx, host)
}

// setPower lets frames of a host pass, or none. A lab without wires has no such switch.
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

// Pause stops a node's agent or a controller where it is, as if its machine had no time for it, until [Lab.Resume].
func (l *Lab) Pause(host string) error { return l.signal(host, unix.SIGSTOP) }

// Resume lets it go on.
func (l *Lab) Resume(host string) error { return l.signal(host, unix.SIGCONT) }

func (l *Lab) signal(host string, signal unix.Signal) error {
	if _, err := l.servedHost(host); err != nil {
		return err
	}
	if !l.AgentAlive(host) {
		return fmt.Errorf("%s does not run", l.serviceOf(host))
	}
	return l.Agent(host).signal(signal)
}
