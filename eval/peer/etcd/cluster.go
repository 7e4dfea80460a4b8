package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/cpushare"
	"github.com/netcraq/netcraq/internal/platform/owned"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// Options describe the cluster.
type Options struct {
	Binary  string   // the etcd server
	Command []string // arguments before its flags, if it is a command of another program
	Members int
	Share   float64 // CPUs per member; 0: no limit
	Sites   []Site  // one per member; none: addresses of the loopback device
	Dir     string  // members' data; empty: a directory in memory that [Cluster.Stop] removes

	// Heartbeat and Election are etcd's timers; 0: its defaults, 100 ms and 1 s.
	Heartbeat, Election time.Duration
	Profiles            bool     // serve CPU profiles, see [Cluster.Endpoints]
	Flags               []string // more flags of etcd
}

// Site is the place of a member.
type Site struct {
	Addr      netip.Addr
	Namespace string // path of a network namespace; empty: the caller's
}

// Cluster is a running cluster.
type Cluster struct {
	options Options
	dir     string
	own     bool           // Stop removes the directory
	keeper  *thread.Thread // parent of the members, which the kernel ends with it
	members []*member
}

// memory is the parent directory of data that the disk must not slow down.
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
		return nil, fmt.Errorf("%d sites for %d etcd members: want one per member", len(o.Sites), o.Members)
	}
	c := &Cluster{options: o, dir: o.Dir}
	if c.dir == "" {
		dir, err := owned.Dir(memory, "netcraq-etcd-", os.RemoveAll)
		if err != nil {
			return nil, fmt.Errorf("a directory in memory for etcd: %w", err)
		}
		c.dir, c.own = dir, true
	}
	var err error
	if c.keeper, err = thread.Start(func() error { return nil }); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// start starts all members before it waits for any: a member becomes ready only with a quorum. CPU
// limits apply once all are up, before any measurement.
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

// Endpoints returns the client URLs of the members. Metrics are at /metrics and profiles at
// /debug/pprof below them.
func (c *Cluster) Endpoints() []string {
	urls := make([]string, len(c.members))
	for i := range urls {
		urls[i] = c.clientURL(i)
	}
	return urls
}

// PIDs returns the members' processes.
func (c *Cluster) PIDs() []int {
	pids := make([]int, len(c.members))
	for i, m := range c.members {
		pids[i] = m.command.Process.Pid
	}
	return pids
}

// Ended returns an error with the last lines of the log of each member that has ended by itself; nil: all run.
func (c *Cluster) Ended() error {
	var errs []error
	for _, m := range c.members {
		select {
		case <-m.over:
			errs = append(errs, m.ended())
		default:
		}
	}
	return errors.Join(errs...)
}

// Throttle returns, per member, the periods in which it ran and was throttled; nil without CPU
// limits.
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

// Settings describes the cluster's setup.
func (c *Cluster) Settings() []string {
	o := c.options
	settings := []string{fmt.Sprintf("%d members, each a process", o.Members)}
	if o.Share > 0 {
		settings = append(settings, fmt.Sprintf("%g %% of a CPU and one Go thread at a time for each (GOMAXPROCS=1)",
			100*o.Share))
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

// Stop kills all members with SIGKILL and removes their files.
func (c *Cluster) Stop() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.kill())
	}
	c.members = nil
	c.keeper.Close()
	if c.own {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
