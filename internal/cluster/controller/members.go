package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

const (
	// changeWithin bounds how long a request to change the controllers waits for the change before it.
	changeWithin = 3 * time.Second
	// changeAgain is the pause between two attempts at a step of such a change.
	changeAgain = 100 * time.Millisecond
)

// errNoController says that no controller has a name.
var errNoController = errors.New("no such controller")

// Controllers implements the API. A controller that leads is in etcd's majority, and is not the one that lost its data.
func (c *Controller) Controllers(
	ctx context.Context, in *controllerv1.ControllersRequest,
) (*controllerv1.ControllersResponse, error) {
	if c.term.Load() == nil {
		return nil, c.notLeading()
	}
	var err error
	switch {
	case in.GetReplace() != "":
		err = c.replaceController(ctx, in.GetReplace())
	case in.GetRemove() != "":
		err = c.removeController(ctx, in.GetRemove())
	case in.GetAdd() != nil:
		err = c.addController(ctx, in.GetAdd())
	}
	if err != nil {
		return nil, memberError(err)
	}
	out, err := c.listControllers(ctx)
	if err != nil && in.GetRemove() != "" { // it removed itself, and leads no more
		return &controllerv1.ControllersResponse{}, nil
	}
	return out, err
}

func memberError(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Aborted
	if errors.Is(err, errNoController) {
		code = codes.NotFound
	}
	return status.Error(code, err.Error())
}

// listControllers lists the set of controllers, with the state of their etcd.
func (c *Controller) listControllers(ctx context.Context) (*controllerv1.ControllersResponse, error) {
	members, err := c.store.Members(ctx)
	if err != nil {
		return nil, memberError(err)
	}
	set := c.controllers()
	out := &controllerv1.ControllersResponse{}
	add := func(one reconfig.Controller) *controllerv1.EtcdMember {
		m := &controllerv1.EtcdMember{Name: one.Name, Address: one.Address, Peer: one.Peer, Started: !c.store.Embedded()}
		for _, e := range members {
			if e.Peer == one.Peer {
				m.Started, m.Learner = e.Started, e.Learner
			}
		}
		out.Members = append(out.Members, m)
		return m
	}
	for _, m := range set.Members {
		add(m)
	}
	if set.Joining.Address != "" {
		add(set.Joining).Joining = true
	}
	if set.Leaving.Address != "" {
		add(set.Leaving).Leaving = true
	}
	slices.SortStableFunc(out.Members, func(a, b *controllerv1.EtcdMember) int { return strings.Compare(a.GetName(), b.GetName()) })
	_, err = c.ask(ctx, func(l *reconfig.Leader) { out.Awaited = l.Status().Awaited })
	return out, err
}

// self is the record of this controller in a cluster that it forms.
func (c *Controller) self() reconfig.Controller {
	one := reconfig.Controller{Name: c.options.Address, Address: c.options.Address}
	if e := c.options.Store.Embedded; e != nil {
		one.Name, one.Peer = e.Name, e.Peers[e.Name]
	}
	return one
}

// controllers is the present set. Controllers that an older release recorded have their names from this one's command line.
func (c *Controller) controllers() reconfig.ControllerSet {
	set := c.view.controllers()
	set.Members = slices.Clone(set.Members)
	known := append(slices.Clone(c.options.Form.Controllers.Members), c.self())
	for i := range set.Members {
		m := &set.Members[i]
		for _, k := range known {
			if m.Name == "" && k.Address == m.Address {
				*m = k
			}
		}
		if m.Name == "" {
			m.Name = m.Address
		}
	}
	return set
}

// findController finds a controller by its name or its address.
func findController(all []reconfig.Controller, name string) (reconfig.Controller, bool) {
	at := slices.IndexFunc(all, func(m reconfig.Controller) bool { return m.Name == name || m.Address == name })
	if at < 0 {
		return reconfig.Controller{}, false
	}
	return all[at], true
}

func noController(set *reconfig.ControllerSet, name string) error {
	var names []string
	for _, m := range set.Members {
		names = append(names, m.Name)
	}
	return fmt.Errorf("%w: %q; the cluster has %s", errNoController, name, strings.Join(names, ", "))
}

func (c *Controller) replaceController(ctx context.Context, name string) error {
	set := c.controllers()
	m, ok := findController(set.Members, name)
	if !ok {
		return noController(&set, name)
	}
	return c.store.Replace(ctx, m.Name, m.Peer)
}

// addController begins to add a controller. It counts when it has been started and follows the state: see
// [leading.keepControllers].
func (c *Controller) addController(ctx context.Context, in *controllerv1.ControllerSpec) error {
	one := reconfig.Controller{Name: in.GetName(), Address: in.GetAddress()}
	if c.store.Embedded() {
		one.Peer = in.GetPeer()
	}
	if _, _, err := net.SplitHostPort(one.Address); err != nil || one.Name == "" || c.store.Embedded() && one.Peer == "" {
		return errors.New("a controller is added as NAME=ADDRESS")
	}
	return c.changeControllers(ctx, func(set reconfig.ControllerSet) (reconfig.ControllerSet, error) {
		named, nameTaken := findController(set.Members, one.Name)
		at, addressTaken := findController(set.Members, one.Address)
		switch {
		case set.Joining == one || nameTaken && named == one:
			return set, nil
		case nameTaken:
			return set, fmt.Errorf("%s is the name of the controller at %s: choose another", one.Name, named.Address)
		case addressTaken:
			return set, fmt.Errorf("%s is the address of controller %s", one.Address, at.Name)
		case set.Joining.Address != "":
			return set, fmt.Errorf("controller %s joins, and one can at a time: start it, or remove it", set.Joining.Name)
		case len(set.Members) >= wire.MaxGranters:
			return set, fmt.Errorf("a cluster has at most %d controllers, because nodes take leases from no more", wire.MaxGranters)
		case set.Leaving.Address == one.Address || set.Leaving.Peer != "" && set.Leaving.Peer == one.Peer:
			return set, fmt.Errorf("%w: the etcd of %s is not removed yet", reconfig.ErrControllersChange, set.Leaving.Name)
		}
		if err := c.store.AddLearner(ctx, one.Name, one.Peer); err != nil {
			return set, err
		}
		set.Joining = one
		return set, nil
	})
}

// removeController removes a controller from the set. Its etcd member follows: see [leading.keepControllers].
func (c *Controller) removeController(ctx context.Context, name string) error {
	var gone reconfig.Controller
	err := c.changeControllers(ctx, func(set reconfig.ControllerSet) (reconfig.ControllerSet, error) {
		m, ok := findController(set.Members, name)
		joins := !ok && set.Joining.Address != "" && (set.Joining.Name == name || set.Joining.Address == name)
		if joins {
			m = set.Joining
		}
		switch {
		case !ok && !joins && gone != (reconfig.Controller{}): // an attempt came through
			return set, nil
		case !ok && !joins && (set.Leaving.Name == name || set.Leaving.Address == name):
			return set, nil
		case !ok && !joins:
			return set, noController(&set, name)
		case set.Leaving.Address != "":
			return set, reconfig.ErrControllersChange
		}
		next := set.Without(m)
		if joins {
			next.Joining = reconfig.Controller{}
		} else if err := c.checkRest(&next, m.Name); err != nil {
			return set, err
		}
		if !c.store.Embedded() {
			next.Leaving = reconfig.Controller{}
		}
		gone = m
		return next, nil
	})
	return err
}

// checkRest returns the reason why a set cannot grant leases after a controller was removed.
func (c *Controller) checkRest(rest *reconfig.ControllerSet, name string) error {
	if len(rest.Members) == 0 {
		return fmt.Errorf("%s is the only controller: a cluster has at least one", name)
	}
	var lives, away []string
	for _, m := range rest.Members {
		if p := c.peers.get(m.Address); p == nil || p.reachable() { // itself, or another one
			lives = append(lives, m.Name)
		} else {
			away = append(away, m.Name)
		}
	}
	if len(lives) < rest.Majority() {
		return fmt.Errorf("without %s only %d of %d controllers would run, fewer than a majority: start or remove %s first",
			name, len(lives), len(rest.Members), strings.Join(away, ", "))
	}
	return nil
}

// changeControllers makes the set durable that comes next after the present one, and repeats that while another change is
// under way.
func (c *Controller) changeControllers(
	ctx context.Context, next func(reconfig.ControllerSet) (reconfig.ControllerSet, error),
) error {
	within, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	for {
		set, err := next(c.controllers())
		if err == nil {
			err = c.setControllers(ctx, set)
		}
		if !errors.Is(err, reconfig.ErrControllersChange) {
			return err
		}
		select {
		case <-within.Done():
			return err
		case <-time.After(changeAgain):
		}
	}
}

// setControllers makes a set durable, unless it is the present one.
func (c *Controller) setControllers(ctx context.Context, set reconfig.ControllerSet) error {
	now := c.view.controllers()
	if set.Since == now.Since && !set.Steps(&now) && set.Joining == now.Joining && set.Leaving == now.Leaving {
		return nil
	}
	set.Since = now.Since // as the one that it follows
	var change uint64
	var refused error
	if _, err := c.ask(ctx, func(l *reconfig.Leader) { change, refused = l.Operate(c.now(), reconfig.SetControllers{Set: set}) }); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	if err := c.view.until(ctx, func() bool { return c.view.state.Change >= change }); err != nil {
		return err
	}
	if is := c.view.controllers(); is.Since == now.Since { // the change was dropped for another one
		return reconfig.ErrControllersChange
	}
	return nil
}

// keepControllers carries on with changes of the set of controllers, also those of an earlier leader: it removes the etcd of a
// controller that left, and lets one that joins count once it follows the state.
func (t *leading) keepControllers() {
	v := t.c.view
	for {
		err := v.until(t.ctx, func() bool {
			s := &v.formation.Controllers
			return s.Joining.Address != "" || s.Leaving.Address != ""
		})
		if err != nil {
			return
		}
		if err := t.carryOn(); err != nil && t.ctx.Err() == nil {
			t.c.log.Debug("the controllers change", "waits", err)
		}
		select {
		case <-t.ctx.Done():
			return
		case <-time.After(changeAgain):
		}
	}
}

// carryOn tries the next step of a change.
func (t *leading) carryOn() error {
	c, set := t.c, t.c.controllers()
	if gone := set.Leaving; gone.Address != "" {
		if err := c.store.RemoveMember(t.ctx, gone.Name, gone.Peer); err != nil {
			return err
		}
		set.Leaving = reconfig.Controller{}
		return c.setControllers(t.ctx, set)
	}
	one := set.Joining
	if one.Address == "" {
		return nil
	}
	if err := c.store.AddLearner(t.ctx, one.Name, one.Peer); err != nil { // an earlier leader may have failed to
		return err
	}
	members, err := c.store.Members(t.ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(members, func(m store.Member) bool { return m.Peer == one.Peer && (m.Learner || !m.Started) }) {
		return fmt.Errorf("%s has not copied the state yet", one.Name)
	}
	ctx, cancel := context.WithTimeout(t.ctx, leaseLeftTry)
	defer cancel()
	p := c.peers.get(one.Address)
	if p == nil {
		return nil
	}
	if _, ok := p.leaseLeft(ctx, reconfig.LeaseWait{Change: set.Since}); !ok {
		return fmt.Errorf("%s does not follow the state yet", one.Name)
	}
	return c.setControllers(t.ctx, set.With(one))
}

// settingsChanged follows other times, tags or controllers.
func (c *Controller) settingsChanged() {
	set := c.view.controllers()
	if err := c.peers.follow(set.Connected()); err != nil {
		c.log.Error("cannot prepare a connection to another controller", "because", err)
	}
	c.hearts.follow(&set)
	c.welcomeAll()
}

// awaitRemoval ends this controller when the others have removed it.
func (c *Controller) awaitRemoval(ctx context.Context) error {
	expelled := make(chan error, 1)
	go func() { expelled <- c.view.until(ctx, c.view.expelled) }()
	select {
	case <-ctx.Done():
		return nil
	case <-c.store.Removed():
	case err := <-expelled:
		if err != nil {
			return nil
		}
	}
	return fmt.Errorf("this controller was removed from the cluster, or its etcd has ended: to add it again, run "+
		"`netcraq controllers add %s=%s`, and start it with --replacement and an empty directory", c.self().Name, c.options.Address)
}
