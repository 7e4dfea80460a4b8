package etcdgateway

import (
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/wire"
)

// Options describe a comparison.
type Options struct {
	Etcd string // path of the etcd server
	// Gateway returns the command line of a gateway that listens on an address, in front of these endpoints.
	Gateway func(listen string, endpoints []string) []string
	Chain   string // description of the chain behind the gateway

	Members, Conns, Clients int
	HotKeys, ZipfKeys       int
	ValueBytes              int
	Seconds                 float64 // of each load in each round, through the gateway and again without it
	Rounds                  int
	Seed                    uint64

	Profile     string // file for a CPU profile of the gateway under a load; empty: none
	ProfileLoad string // the load's name
	Progress    func(step string)
}

// Defaults are the options of the project's published figures.
func Defaults() Options {
	return Options{
		Members: 3, Conns: 6, Clients: 64, HotKeys: 25, ZipfKeys: 1000, ValueBytes: 400,
		Seconds: 1, Rounds: 3, Seed: 1, ProfileLoad: hotRange,
	}
}

// zipfExponent is the skew of the Zipf load.
const zipfExponent = 0.99

// OptionError reports an option that is out of range.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

// Bound is the range of the value of a flag.
type Bound struct {
	Flag               string
	Value, Least, Most int
}

// CheckBounds refuses values out of range, and a time of a load that is not above 0 and at most 600 seconds.
func CheckBounds(bounds []Bound, seconds float64) error {
	for _, b := range bounds {
		if b.Value < b.Least || b.Value > b.Most {
			return Refuse("--%s %d: want %d to %d", b.Flag, b.Value, b.Least, b.Most)
		}
	}
	if !(seconds > 0 && seconds <= 600) {
		return Refuse("--seconds %v: want more than 0, and at most 600", seconds)
	}
	return nil
}

// Refuse returns an OptionError.
func Refuse(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }

// Validate checks the options.
func (o *Options) Validate() error {
	err := CheckBounds([]Bound{
		{"members", o.Members, 1, 9},
		{"conns", o.Conns, o.Members, 256},
		{"clients", o.Clients, 1, 10_000},
		{"hot-keys", o.HotKeys, 1, 100},
		{"zipf-keys", o.ZipfKeys, 1, 100_000},
		{"value-bytes", o.ValueBytes, 1, wire.MaxValueBytes},
		{"rounds", o.Rounds, 1, 1000},
	}, o.Seconds)
	if err == nil && !slices.Contains(names, o.ProfileLoad) {
		err = Refuse("--profile-load %q: want one of %q", o.ProfileLoad, names)
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
