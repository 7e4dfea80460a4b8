package etcdstudy

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/eval/cpushare"
	"github.com/netcraq/netcraq/eval/peer/etcd"
)

// HarnessOptions describe the cluster of a harness.
type HarnessOptions struct {
	Binary    string // the etcd server; empty: [etcd.Find]
	Members   int
	Share     float64 // of a CPU, for each member; 0: [Share]
	Unlimited bool    // no share at all
	Conns     int     // that clients share; 0: the study's
	Profiles  bool    // members serve profiles
}

// Harness is a running cluster with connections to it.
type Harness struct {
	Settings []string // the cluster's, in words
	cluster  *etcd.Cluster
	conns    []*clientv3.Client
}

// OpenHarness starts a cluster and connects to it. The caller closes the harness.
func OpenHarness(ctx context.Context, o HarnessOptions) (*Harness, error) {
	if o.Members < 1 || o.Share < 0 || o.Conns < 0 {
		return nil, wrongOption(
			"%d members with %g CPUs each and %d connections: want a member, and nothing below 0", o.Members,
			o.Share, o.Conns)
	}
	binary := o.Binary
	if binary == "" {
		var err error
		if binary, err = etcd.Find(); err != nil {
			return nil, err
		}
	}
	share := o.Share
	switch {
	case o.Unlimited:
		share = 0
	case share == 0:
		share = Share()
	}
	count := o.Conns
	if count == 0 {
		count = conns
	}
	cluster, err := etcd.Start(ctx,
		etcd.Options{Binary: binary, Members: o.Members, Share: share, Profiles: o.Profiles})
	if err != nil {
		return nil, err
	}
	connections, err := dial(cluster.Endpoints(), count)
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return &Harness{cluster.Settings(), cluster, connections}, nil
}

// Close stops the cluster. Nothing is left of it.
func (r *Harness) Close() error {
	return errors.Join(hangUp(r.conns), r.cluster.Stop())
}

// throttling compares two counts of the members' groups.
type throttling struct{ before, after []cpushare.Stat }

// mean is the part of the time in which members had used up their shares, 0 to 1; 0 if they have none.
func (t throttling) mean() float64 {
	sum := 0.0
	for i := range t.before {
		sum += t.after[i].ThrottledSince(t.before[i])
	}
	return sum / max(1, float64(len(t.before)))
}

// run measures clients against the harness's members.
func (r *Harness) run(ctx context.Context, clients []operation, kinds int, l Load) (*closedLoop, float64, error) {
	var t throttling
	loop, err := runClosed(ctx, clients, kinds, l.Duration,
		func() (err error) { t.before, err = r.cluster.Throttle(); return err },
		func() (err error) { t.after, err = r.cluster.Throttle(); return err })
	if err != nil {
		return nil, 0, err
	}
	return loop, t.mean(), nil
}
