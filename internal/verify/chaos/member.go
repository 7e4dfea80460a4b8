package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// MemberOptions describe a trial of etcd's members that read through the chain. Every host of a controller also runs
// one.
type MemberOptions struct {
	ServedOptions
	// Member returns the command line of the member on a host, as this program or, without the chain's flags, as plain
	// etcd. joins says that it comes into a cluster that exists, without data.
	Member func(l *lab.Lab, h lab.Host, plain, joins bool) []string
	// Dir is the data directory of the member on a host, and Peer its URL for other members.
	Dir  func(l *lab.Lab, h lab.Host) string
	Peer func(h lab.Host) string
	// Switch does what an operator does who ends fast reads on a member's machine, or begins them.
	Switch func(ctx context.Context, dir string, off bool) error
}

// MemberResult is the outcome of a trial of members.
type MemberResult struct {
	ServedResult
	// Counters of all members, without those of the last second before a kill.
	FastReads uint64            `json:"fast_reads"`
	SlowReads map[string]uint64 `json:"slow_reads"` // by the reason
	Pushes    uint64            `json:"pushes"`
	// Warned is how many members could not end fast reads when they were stopped, and said so.
	Warned  int `json:"stops_with_warning"`
	Members int `json:"members"`
}

// Metrics of members.
const (
	fastReadsMetric = "netcraq_member_fast_reads_total"
	slowReadsMetric = "netcraq_member_slow_reads_total"
	pushesMetric    = "netcraq_member_pushes_total"
)

// Members brings a cluster up, with an etcd whose members read through the chain, injects faults while clients work,
// and checks all that the clients saw against etcd's history. At the end all members have to read through the chain
// again. It removes the cluster in any case.
func Members(ctx context.Context, o MemberOptions) (*MemberResult, error) {
	control := &memberControl{o: &o}
	defer control.close()
	result, t, err := serve(ctx, &o.ServedOptions, control.scene, control.whole)
	if err != nil {
		return nil, err
	}
	r := &MemberResult{
		ServedResult: *result, Members: len(control.services), Warned: control.warned, SlowReads: make(map[string]uint64),
		FastReads: t.counted(fastReadsMetric), Pushes: t.counted(pushesMetric),
	}
	for name := range t.total {
		if reason, is := strings.CutPrefix(name, slowReadsMetric+`{reason="`); is {
			if n := t.counted(name); n > 0 {
				r.SlowReads[strings.TrimSuffix(reason, `"}`)] = n
			}
		}
	}
	return r, nil
}

// memberControl is what faults of members need.
type memberControl struct {
	o        *MemberOptions
	l        *lab.Lab
	hosts    []lab.Host
	services []*lab.Service
	joined   map[string]bool // hosts whose member came into the cluster later
	operator *gatewaycheck.Operator
	warned   int
}

func (c *memberControl) scene(l *lab.Lab) scene {
	c.l, c.hosts, c.joined = l, l.Plan.With(lab.RoleController), make(map[string]bool)
	for _, h := range c.hosts {
		c.services = append(c.services, l.Service(h.Name, "member-"+h.Name, c.o.Member(l, h, false, false)))
	}
	return scene{
		services: c.services, recipes: etcdRecipes, fromChain: fastReadsMetric,
		engage:   func(d *driver) { d.members, d.etcd, d.every = c.services, c, betweenJoins },
		workload: gatewaycheck.Workload{Locks: servedLocks, Ways: true},
		page:     func(h lab.Host) string { return "http://" + c.o.Address(h) + "/metrics" },
		counters: []string{fastReadsMetric, slowReadsMetric, pushesMetric},
	}
}

// operate returns a client for changes.
func (c *memberControl) operate() (_ *gatewaycheck.Operator, err error) {
	if c.operator == nil {
		var addresses []string
		for _, h := range c.hosts {
			addresses = append(addresses, c.o.Address(h))
		}
		c.operator, err = gatewaycheck.Operate(addresses)
	}
	return c.operator, err
}

func (c *memberControl) close() {
	if c.operator != nil {
		c.operator.Close()
	}
}

// use has the next start of the member of a number run this program or plain etcd.
func (c *memberControl) use(i int, plain bool) {
	h := c.hosts[i]
	c.services[i].Use(c.o.Member(c.l, h, plain, c.joined[h.Name]))
}

// whole returns when all members read through the chain, after all faults.
func (c *memberControl) whole(ctx context.Context, t *served) error {
	ctx, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	last := make(map[string]float64)
	for back := make(map[string]bool); len(back) < len(c.hosts); {
		if err := t.servers.Ready(ctx); err != nil {
			return err
		}
		for _, h := range c.hosts {
			m, err := gatewaycheck.ReadMetrics(ctx, t.page(h), fastReadsMetric)
			if before, was := last[h.Name]; err == nil && was && m[fastReadsMetric] > before {
				back[h.Name] = true
			}
			if err == nil {
				last[h.Name] = m[fastReadsMetric]
			}
		}
		if !retry.Sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("after all faults only %d of %d members read through the chain again within %v", len(back),
				len(c.hosts), formPatience)
		}
	}
	return nil
}
