package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Machines tells which machines are cordoned in Kubernetes. A machine has the name of its node.
type Machines interface {
	// Cordoned lists those that are cordoned, and may be old.
	Cordoned(context.Context) ([]string, error)
	// Machine is the newest state of one.
	Machine(ctx context.Context, name string) (exists, cordoned bool, err error)
}

// lookAtMachinesEvery is the time between two looks at the machines.
const lookAtMachinesEvery = 2 * time.Second

// cordonWithin bounds the wait for one change. None comes if the leader drops the command.
const cordonWithin = 5 * time.Second

// followMachines drains the nodes of cordoned machines while this controller leads, as far as the leader allows it, and
// undrains them when their machines are uncordoned.
func (t *leading) followMachines() {
	if t.c.options.Machines == nil {
		return
	}
	defer t.c.cordons.Store(nil)
	for retry.Sleep(t.ctx, lookAtMachinesEvery) {
		notes := t.matchMachines(t.c.options.Machines)
		t.c.cordons.Store(&notes)
	}
}

// matchMachines returns notes for operators about what could not be done. It is tried again.
func (t *leading) matchMachines(machines Machines) (notes []string) {
	cordoned, err := machines.Cordoned(t.ctx)
	if err != nil {
		return []string{fmt.Sprintf("nodes of cordoned machines are not drained: %v", err)}
	}
	state := t.c.view.clone()
	if state == nil {
		return nil
	}
	for _, n := range sortedNodes(state) {
		if err := t.matchMachine(machines, n, slices.Contains(cordoned, n.Name)); err != nil {
			notes = append(notes, err.Error())
		}
	}
	return notes
}

func (t *leading) matchMachine(machines Machines, n *reconfig.Node, listed bool) error {
	drain, undrain := listed && !n.Standing.Draining(), !listed && n.Cordoned
	if n.Standing == reconfig.Removed || !drain && !undrain {
		return nil
	}
	exists, cordoned, err := machines.Machine(t.ctx, n.Name)
	switch {
	case err != nil:
		return fmt.Errorf("machine %s may be cordoned or not: %w", n.Name, err)
	case !exists || cordoned != listed: // a machine that was deleted does not come back
		return nil
	case cordoned:
		if err := t.carry(reconfig.Cordon{Node: n.Name}); err != nil {
			return fmt.Errorf("machine %s is cordoned, and its node is not drained: %w", n.Name, err)
		}
	default:
		if err := t.carry(reconfig.Uncordon{Node: n.Name}); err != nil {
			return fmt.Errorf("machine %s is not cordoned any more, and its node stays drained: %w", n.Name, err)
		}
	}
	return nil
}

// carry has the leader carry out a command, and waits until the change is durable.
func (t *leading) carry(command reconfig.Command) error {
	var change uint64
	var refused error
	_, err := t.c.ask(t.ctx, func(l *reconfig.Leader) { change, refused = l.Operate(t.c.now(), command) })
	if err = cmp.Or(err, refused); err != nil {
		return err
	}
	t.c.log.Info("a machine asks for a change", "command", reconfig.Describe(command), "change", change)
	ctx, cancel := context.WithTimeout(t.ctx, cordonWithin)
	defer cancel()
	if err := t.c.view.until(ctx, func() bool { return t.c.view.state.Change >= change }); err != nil {
		return fmt.Errorf("change %d is not durable yet: %w", change, err)
	}
	return t.c.drained(command)
}
