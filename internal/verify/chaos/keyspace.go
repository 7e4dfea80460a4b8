package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// KeyspaceOptions describe a trial of a keyspace on disks. Every host of a controller also runs a gateway.
type KeyspaceOptions struct {
	ServedOptions
	// Gateway returns the command line of the gateway on a host with a data directory, and Dir the data directory of one
	// that has no small disk.
	Gateway func(l *lab.Lab, h lab.Host, dir string) []string
	Dir     func(l *lab.Lab, h lab.Host) string
	// Disks returns how many gateways have a disk that counts.
	Disks func(ctx context.Context, l *lab.Lab) (int, error)
	// AcceptLosses does what an operator does when all copies of shards are lost: it lets them start empty. whole says
	// that all shards have all their members, as far as the controllers know.
	AcceptLosses func(ctx context.Context, l *lab.Lab) (whole bool, err error)
}

// KeyspaceResult is the outcome of a trial of a keyspace on disks.
type KeyspaceResult struct {
	ServedResult
	Gateways int `json:"gateways"`
	Damaged  int `json:"disks_set_aside"` // of those that got a wrong bit
}

// Keyspaces brings a cluster up, with a keyspace on disks, injects faults while clients work, and checks all that the
// clients saw against the history. At the end all disks have to count. It removes the cluster in any case.
func Keyspaces(ctx context.Context, o KeyspaceOptions) (*KeyspaceResult, error) {
	small, err := newSmallDisk()
	if err != nil {
		return nil, err
	}
	defer small.remove() //nolint:errcheck // the trial's result is more important
	control := &keyspaceControl{o: &o, small: small}
	result, _, err := serve(ctx, &o.ServedOptions, control.scene, control.whole)
	if err != nil {
		return nil, err
	}
	return &KeyspaceResult{ServedResult: *result, Gateways: len(control.services), Damaged: control.damaged}, nil
}

// keyspaceControl is what faults of a keyspace on disks need.
type keyspaceControl struct {
	o        *KeyspaceOptions
	l        *lab.Lab
	hosts    []lab.Host
	services []*lab.Service
	dirs     []string // of gateways
	small    *smallDisk
	damaged  int
}

func (c *keyspaceControl) scene(l *lab.Lab) scene {
	c.l, c.hosts = l, l.Plan.With(lab.RoleController)
	for i, h := range c.hosts {
		dir := c.o.Dir(l, h)
		if i == len(c.hosts)-1 {
			dir = c.small.data()
		}
		c.dirs = append(c.dirs, dir)
		c.services = append(c.services, l.Service(h.Name, "gateway-"+h.Name, c.o.Gateway(l, h, dir)))
	}
	return scene{
		services: c.services, recipes: slices.Concat(gatewayRecipes, keyspaceRecipes),
		engage: func(d *driver) { d.gateways, d.keyspace, d.every = c.services, c, betweenJoins },
	}
}

// whole returns when the disks of all gateways count, after all faults.
func (c *keyspaceControl) whole(ctx context.Context, t *served) error {
	ctx, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	if err := t.servers.Ready(ctx); err != nil {
		return err
	}
	return c.allCount(ctx)
}

// formAgain has the operator accept losses until all chains are whole. before are the epochs of all shards when the
// nodes were emptied, and now are the present ones: until a shard has another, the controllers do not know that it is
// lost, and take its chain for whole.
func (c *keyspaceControl) formAgain(ctx context.Context, before []uint32, now func() []uint32) error {
	for {
		whole, err := c.o.AcceptLosses(ctx, c.l)
		old := unchanged(before, now())
		if err == nil && whole && old == 0 {
			return nil
		}
		if !retry.Sleep(ctx, look) {
			return fmt.Errorf("wait until the chains are whole (%t) and %d shards have other epochs than before: %w",
				whole, old, errors.Join(context.Cause(ctx), err))
		}
	}
}

// unchanged counts the numbers that have not changed.
func unchanged(before, now []uint32) (same int) {
	for i := range before {
		if before[i] == now[i] {
			same++
		}
	}
	return same
}

// startAgain starts the gateway of a number, and waits until it answers and the disks of all gateways count.
func (c *keyspaceControl) startAgain(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, formAgainWithin)
	defer cancel()
	return errors.Join(c.services[i].Start(), c.answers(ctx, i), c.allCount(ctx))
}

// answers waits until the gateway of a number answers.
func (c *keyspaceControl) answers(ctx context.Context, i int) error {
	return answers(ctx, c.o.Address(c.hosts[i]))
}

// allCount waits until the disks of all gateways count.
func (c *keyspaceControl) allCount(ctx context.Context) error {
	for {
		n, err := c.o.Disks(ctx, c.l)
		if err == nil && n == len(c.services) {
			return nil
		}
		if !retry.Sleep(ctx, look) {
			return fmt.Errorf("the disks of %d of %d gateways count: %w", n, len(c.services), context.Cause(ctx))
		}
	}
}
