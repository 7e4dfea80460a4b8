package lists

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/etcdgateway"
)

// Options describe a comparison.
type Options struct {
	Etcd      string // path of the etcd server
	Netcraq   string // path of netcraq
	ChainFile string // cluster file of the chain
	Pins      string // directory with the pins of its nodes; empty: members read them through the network
	Chain     string // description of the chain
	// Gateway and Memory return the command line of a gateway in front of etcd's endpoints, and of a memory gateway.
	Gateway func(listen string, endpoints []string) []string
	Memory  func(listen string) []string

	Members       int
	Lists, Writes float64 // a second
	Seconds       float64 // of each system in each round
	Rounds        int
	Seed          uint64
	Progress      func(step string)
}

// Defaults are the options of the project's published figures.
func Defaults() Options {
	return Options{Members: 3, Lists: 20, Writes: 50, Seconds: 10, Rounds: 3, Seed: 1}
}

// mostPerSecond bounds the rates. The load is to be small.
const mostPerSecond = 1000

// Validate checks the options. Its errors are those of [etcdgateway.Refuse].
func (o *Options) Validate() error {
	for _, rate := range []struct {
		flag  string
		value float64
	}{{"lists", o.Lists}, {"writes", o.Writes}} {
		if !(rate.value > 0 && rate.value <= mostPerSecond) {
			return etcdgateway.Refuse("--%s %v: want more than 0 and at most %d a second", rate.flag, rate.value, mostPerSecond)
		}
	}
	return etcdgateway.CheckBounds([]etcdgateway.Bound{
		{Flag: "members", Value: o.Members, Least: 1, Most: 9},
		{Flag: "rounds", Value: o.Rounds, Least: 1, Most: 1000},
	}, o.Seconds)
}

func (o *Options) length() time.Duration { return time.Duration(o.Seconds * float64(time.Second)) }

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
