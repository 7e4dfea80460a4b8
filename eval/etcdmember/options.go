package etcdmember

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/wire"
)

// Options describe a comparison.
type Options struct {
	Etcd     string // path of the etcd server
	Baseline string // what Etcd is
	// Start starts the servers that are compared with etcd, and waits until they are as they are to be measured.
	Start func(ctx context.Context) (Servers, error)
	Ours  string // their name in the table
	About string // their description
	// Fast is the metric of reads that they answered through the chain; empty: there is none.
	Fast string
	// Alone: the latency of puts is compared with one client.
	Alone bool
	// Watchers is how many watchers get the events of puts in a comparison of their own. 0: it is not made.
	Watchers int
	Dir      string // of etcd's data; empty: in memory

	Members, Conns, Clients int
	Keys                    int // a multiple of ListKeys
	ValueBytes              int
	Seconds                 float64 // of each load in each round, for each cluster
	Rounds                  int
	Seed                    uint64

	Progress func(step string)
}

// Baselines, which members that read through a chain are compared with.
const (
	BaselineEtcd  = "etcd"  // as it is
	BaselineLease = "lease" // etcd whose leader answers reads while it has Raft's lease
)

// Servers serve etcd's API, each in a process of its own.
type Servers interface {
	Endpoints() []string
	PIDs() []int
	Ended() error // of a server that has ended by itself; nil: all run
	Stop() error
}

// ListKeys is how many keys a list has.
const ListKeys = 100

// zipfExponent is the skew with which keys are drawn.
const zipfExponent = 0.99

// Defaults are the options of the project's published figures.
func Defaults() Options {
	return Options{Members: 3, Conns: 6, Clients: 64, Keys: 100_000, ValueBytes: 400, Seconds: 1, Rounds: 7, Seed: 1,
		Baseline: BaselineEtcd}
}

// Validate checks the options. Its errors are those of [etcdgateway.Refuse].
func (o *Options) Validate() error {
	err := etcdgateway.CheckBounds([]etcdgateway.Bound{
		{Flag: "members", Value: o.Members, Least: 1, Most: 9},
		{Flag: "conns", Value: o.Conns, Least: o.Members, Most: 256},
		{Flag: "clients", Value: o.Clients, Least: o.Conns, Most: 10_000},
		{Flag: "keys", Value: o.Keys, Least: ListKeys, Most: 10_000_000},
		{Flag: "value-bytes", Value: o.ValueBytes, Least: 1, Most: wire.MaxValueBytes},
		{Flag: "rounds", Value: o.Rounds, Least: 1, Most: 1000},
		{Flag: "watchers", Value: o.Watchers, Most: 100_000},
	}, o.Seconds)
	if err == nil && o.Baseline != BaselineEtcd && o.Baseline != BaselineLease {
		err = etcdgateway.Refuse("--baseline %q: want %s or %s", o.Baseline, BaselineEtcd, BaselineLease)
	}
	if err == nil && o.Keys%ListKeys != 0 {
		err = etcdgateway.Refuse("--keys %d: want a multiple of %d, the keys of a list", o.Keys, ListKeys)
	}
	return err
}

func (o *Options) plan() *etcdload.Plan {
	return &etcdload.Plan{Clients: o.Clients, Seconds: o.Seconds, Seed: o.Seed}
}

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
