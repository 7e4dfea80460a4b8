package leases

import (
	"fmt"
	"time"

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

// OptionError reports an option that is out of range.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

// Validate checks the options.
func (o *Options) Validate() error {
	for _, c := range []struct {
		flag               string
		value, least, most int
	}{
		{"nodes", o.Nodes, 1, 100_000},
		{"workers", o.Workers, 1, 10_000},
		{"conns", o.Conns, 1, 256},
		{"members", o.Members, 1, 9},
		{"value-bytes", o.ValueBytes, 1, wire.MaxValueBytes},
		{"rounds", o.Rounds, 1, 1000},
	} {
		if c.value < c.least || c.value > c.most {
			return &OptionError{fmt.Sprintf("--%s %d: want %d to %d", c.flag, c.value, c.least, c.most)}
		}
	}
	if o.Workers > o.Nodes {
		return &OptionError{fmt.Sprintf("--workers %d: want at most --nodes %d", o.Workers, o.Nodes)}
	}
	if !(o.Seconds > 0 && o.Seconds <= 600) {
		return &OptionError{fmt.Sprintf("--seconds %v: want more than 0, and at most 600", o.Seconds)}
	}
	return nil
}

func (o *Options) length() time.Duration { return time.Duration(o.Seconds * float64(time.Second)) }

func (o *Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}
