package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// Upgrade has every process of a trial replaced by another program, one at a time, and then by the first one again. It
// takes the place of faults.
type Upgrade struct {
	Link     string // by which the lab calls the program
	From, To string // paths of programs; processes begin with From
	Keeps    bool   // the data planes go on while their agents are replaced
}

// Use lets the processes that are started from now on run a program.
func (u *Upgrade) Use(program string) error {
	next := u.Link + ".next"
	if err := errors.Join(os.RemoveAll(next), os.Symlink(program, next)); err != nil {
		return err
	}
	return os.Rename(next, u.Link)
}

const (
	upgradeRest   = time.Second      // between two processes, with clients at work
	gatewayEnds   = 30 * time.Second // at most
	gatewayAnswer = 2 * time.Second  // for one question whether it serves
)

// upgraded is the kind under which replaced processes are counted.
const upgraded = "replaced"

// replacement replaces one process.
type replacement struct {
	process string
	replace func(ctx context.Context) error
}

// upgrade replaces the processes in the order of an upgrade, and back in the reverse order.
func (d *driver) upgrade(ctx context.Context) error {
	steps, u := d.replacements(), d.setup.Upgrade
	for _, program := range []string{u.To, u.From} {
		if err := u.Use(program); err != nil {
			return err
		}
		for i, s := range steps {
			err := s.replace(ctx)
			if err == nil {
				err = d.settled(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s, replaced by %s after %d of %d processes: %w", s.process, program, i, len(steps), err)
			}
			d.setup.event("%s is replaced by %s", s.process, program)
		}
		slices.Reverse(steps)
	}
	return nil
}

func (d *driver) replacements() (steps []replacement) {
	for _, name := range d.nodes {
		steps = append(steps, replacement{name, func(ctx context.Context) error { return d.replaceNode(ctx, name) }})
	}
	for _, name := range d.controllers {
		steps = append(steps, replacement{name, func(ctx context.Context) error { return d.replaceAgent(ctx, name) }})
	}
	for i, s := range d.gateways {
		steps = append(steps, replacement{s.Name, func(ctx context.Context) error { return d.replaceGateway(ctx, i, s) }})
	}
	return steps
}

// replaceNode replaces the agent of a node, whose data plane has to go on with what it stores.
func (d *driver) replaceNode(ctx context.Context, name string) error {
	before := d.durable.incarnation(name)
	if err := d.replaceAgent(ctx, name); err != nil {
		return err
	}
	if err := d.whole(ctx); err != nil {
		return err
	}
	if after := d.durable.incarnation(name); d.setup.Upgrade.Keeps && after != before {
		return fmt.Errorf("it lost what it stored: its incarnation was %x and is %x", before, after)
	}
	return nil
}

func (d *driver) replaceAgent(ctx context.Context, host string) error {
	if err := d.lab.EndAgent(ctx, host); err != nil {
		return err
	}
	return d.lab.StartAgent(ctx, host)
}

func (d *driver) replaceGateway(ctx context.Context, i int, s *lab.Service) error {
	if _, err := s.Stop(gatewayEnds); err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	for {
		asking, cancel := context.WithTimeout(ctx, gatewayAnswer)
		err := answers(asking, d.addresses[i])
		cancel()
		switch {
		case err == nil:
			return nil
		case !s.Alive():
			return fmt.Errorf("it has ended: %s", d.lab.LastWords(s.Name))
		case !retry.Sleep(ctx, look):
			return err
		}
	}
}

// settled waits until the cluster has recovered from a replacement, and lets clients work on it.
func (d *driver) settled(ctx context.Context) error {
	d.mu.Lock()
	d.count[upgraded]++
	d.mu.Unlock()
	err := d.whole(ctx)
	if err == nil && d.keyspace != nil {
		err = d.keyspace.allCount(ctx)
	}
	if err != nil {
		return err
	}
	retry.Sleep(ctx, upgradeRest)
	return errors.Join(d.supervise(ctx), ctx.Err())
}

func (d *driver) whole(ctx context.Context) error {
	if c := d.guard.c; !c.becomesWhole(ctx, wholePatience) {
		return fmt.Errorf("the cluster did not become whole: %s", c.describe(c.follower.Map()))
	}
	return nil
}

// answers waits until the server at an address answers.
func answers(ctx context.Context, address string) error {
	g, err := gatewaycheck.Connect([]string{address})
	if err != nil {
		return err
	}
	defer g.Close()
	return g.Ready(ctx)
}
