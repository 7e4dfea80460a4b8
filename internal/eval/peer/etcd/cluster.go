package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/platform/cpushare"
	"github.com/netcraq/netcraq/internal/platform/owned"
)

// Options say what cluster is wanted.
type Options struct {
	Binary  string // the etcd server
	Members int
	Share   float64 // CPUs for each member; 0: as many as there are
	Sites   []Site  // of the members, one each; none: addresses of the loopback device
	Dir     string  // for the members' data; empty: a directory in memory that [Cluster.Stop] removes

	// Heartbeat and Election are etcd's; 0: its own defaults, 100 ms and 1 s.
	Heartbeat, Election time.Duration
	Profiles            bool     // serve CPU profiles, see [Cluster.Endpoints]
	Flags               []string // more of etcd's own
}

// Site is where a member runs.
type Site struct {
	Addr      netip.Addr
	Namespace string // file of a network namespace; empty: the caller's
}

// Cluster is a running cluster.
type Cluster struct {
	options Options
	dir     string
	own     bool // the directory goes with the cluster
	keeper  *keeper
	members []*member
}

// memory is where data is kept that no disk shall slow down.
const memory = "/dev/shm"

// Start starts a cluster and waits until every member serves clients.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Members < 1 {
		return nil, fmt.Errorf("a cluster of %d etcd members: want 1 or more", o.Members)
	}
	if len(o.Sites) == 0 {
		var err error
		if o.Sites, err = loopbackSites(o.Members); err != nil {
			return nil, err
		}
	}
	if len(o.Sites) != o.Members {
		return nil, fmt.Errorf("%d sites for %d etcd members", len(o.Sites), o.Members)
	}
	c := &Cluster{options: o, dir: o.Dir}
	if c.dir == "" {
		dir, err := owned.Dir(memory, "netcraq-etcd-", os.RemoveAll)
		if err != nil {
			return nil, fmt.Errorf("a directory in memory for etcd: %w", err)
		}
		c.dir, c.own = dir, true
	}
	c.keeper = newKeeper()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// start starts all members before it waits for the first: none is ready without most of the others. They are limited once all are up:
// nothing is measured before.
func (c *Cluster) start(ctx context.Context) error {
	for i := range c.options.Members {
		m, err := c.startMember(i)
		if err != nil {
			return err
		}
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		if err := m.await(ctx); err != nil {
			return err
		}
	}
	for _, m := range c.members {
		if err := m.limit(); err != nil {
			return err
		}
	}
	return nil
}

// Endpoints are the URLs for clients, one of each member. Metrics are below them at /metrics, and profiles at /debug/pprof.
func (c *Cluster) Endpoints() []string {
	urls := make([]string, len(c.members))
	for i := range urls {
		urls[i] = c.clientURL(i)
	}
	return urls
}

// Throttle counts, for each member, the periods in which it ran and was stopped; nothing if shares are not limited.
func (c *Cluster) Throttle() ([]cpushare.Stat, error) {
	var all []cpushare.Stat
	for _, m := range c.members {
		if m.share == nil {
			continue
		}
		s, err := m.share.Stat()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Settings says in words how the cluster is set up.
func (c *Cluster) Settings() []string {
	o := c.options
	settings := []string{fmt.Sprintf("%d members, each a process", o.Members)}
	if o.Share > 0 {
		settings = append(settings, fmt.Sprintf("%g %% of a CPU and one Go thread at a time for each (GOMAXPROCS=1)", 100*o.Share))
	} else {
		settings = append(settings, "CPU time not limited")
	}
	if c.own {
		settings = append(settings, "data in memory (tmpfs): fsync costs next to nothing")
	} else {
		settings = append(settings, "data in "+c.dir)
	}
	if flags := o.flags(); len(flags) > 0 {
		settings = append(settings, "flags "+strings.Join(flags, " "))
	} else {
		settings = append(settings, "etcd's own defaults")
	}
	return settings
}

// Stop ends all members at once, as kill -9 does, and removes what they left.
func (c *Cluster) Stop() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.kill())
	}
	c.members = nil
	c.keeper.close()
	if c.own {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
