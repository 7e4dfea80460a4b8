package leases

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/wire"
)

// Options describe a comparison.
type Options struct {
	Etcd string // path of the etcd server
	// Gateway returns the command line of a memory gateway that listens on an address. Two run at once.
	Gateway func(listen string) []string
	Chain   string // description of the gateways' chain

	Nodes, Workers, Conns int
	Members               int
	ValueBytes            int
	Seconds               float64 // of each load
	Rounds                int
	Progress              func(step string)
}

// Defaults are the options of the project's published figures.
func Defaults() Options {
	return Options{Nodes: 10_000, Workers: 256, Conns: 8, Members: 3, ValueBytes: 500, Seconds: 3, Rounds: 3}
}

// Validate checks the options. Its errors are of type [etcdgateway.OptionError].
func (o *Options) Validate() error {
	err := etcdgateway.CheckBounds([]etcdgateway.Bound{
		{Flag: "nodes", Value: o.Nodes, Least: 1, Most: 100_000},
		{Flag: "workers", Value: o.Workers, Least: 1, Most: 10_000},
		{Flag: "conns", Value: o.Conns, Least: 1, Most: 256},
		{Flag: "members", Value: o.Members, Least: 1, Most: 9},
		{Flag: "value-bytes", Value: o.ValueBytes, Least: 1, Most: wire.MaxValueBytes},
		{Flag: "rounds", Value: o.Rounds, Least: 1, Most: 1000},
	}, o.Seconds)
	if err == nil && o.Workers > o.Nodes {
		err = etcdgateway.Refuse("--workers %d: want at most --nodes %d", o.Workers, o.Nodes)
	}
	return err
}

func (o *Options) length() time.Duration { return time.Duration(o.Seconds * float64(time.Second)) }

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
