package reconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrControllersChange says that a change of the set of controllers has to wait, because the one before is under way.
var ErrControllersChange = errors.New("the controllers change at present: try again")

// SetControllers asks for the next set of controllers (L7). Since of the set is that of the present one.
type SetControllers struct{ Set ControllerSet }

func (SetControllers) command() {}

// checkControllers returns the reason why a set cannot be the next one.
func (l *Leader) checkControllers(next ControllerSet) error {
	now := &l.state.Controllers
	if next.Since != now.Since {
		return ErrControllersChange
	}
	next.Since = l.state.Change + 1
	if err := next.follows(now, next.Since); err != nil {
		return err
	}
	if !now.Steps(&next) {
		return nil
	}
	if !l.settled {
		return fmt.Errorf("%w: leases of the set before last more than a moment ago", ErrControllersChange)
	}
	if awaited := l.controllersAwaited(); len(awaited) > 0 {
		return fmt.Errorf("%w: it waits for %s", ErrControllersChange, strings.Join(awaited, ", "))
	}
	return nil
}

// controllersAwaited names the nodes in good standing that do not follow the present set yet.
func (l *Leader) controllersAwaited() (names []string) {
	for _, id := range sorted(l.nodes) {
		if n := l.nodes[id]; !l.state.Nodes[id].Standing.Fenced() && n.controllersSince != l.state.Controllers.Since {
			names = append(names, "node "+l.name(id))
		}
	}
	return names
}

// awaitSettled begins to wait until no lease is one of an earlier set: a majority of the present set has applied it, so that
// every majority of the set before has a controller that grants nothing of that set any more, and its last such grant is over.
func (l *Leader) awaitSettled() {
	since := l.state.Controllers.Since
	if l.settled = since == 0; l.settled {
		return
	}
	l.leaseWaits = slices.DeleteFunc(l.leaseWaits, func(f *leaseWait) bool { return f.nodes == nil })
	l.leaseWaits = append(l.leaseWaits, newLeaseWait(since, nil))
	l.emit(LeaseWait{Change: since})
}

// noteControllers handles a set that is durable, after another one.
func (l *Leader) noteControllers(before *ControllerSet) {
	now := &l.state.Controllers
	for _, m := range now.Members {
		if !before.Has(m.Address) {
			l.emit(Event{fmt.Sprintf("controller %s (%s) is one of %d from now on", m.Name, m.Address, len(now.Members))})
		}
	}
	for _, m := range before.Members {
		if !now.Has(m.Address) {
			l.emit(Event{fmt.Sprintf("controller %s (%s) is none any more", m.Name, m.Address)})
		}
	}
	for _, f := range l.leaseWaits { // the controllers of this set have to answer
		if f.nodes != nil {
			l.emit(LeaseWait{f.change, slices.Clone(f.nodes)})
		}
	}
	l.awaitSettled()
}

// setControllers makes a set the next one. A change that fences nodes has none: controllers answer for both by its number.
func (d *draft) setControllers(set ControllerSet) {
	if len(d.whys) > 0 || d.set.Since != 0 {
		d.l.emit(Event{"a command is dropped: " + ErrControllersChange.Error()})
		return
	}
	set.Since = d.number
	d.set = set
}
