package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/client"
)

// Protocols.
const (
	NetChain     = "netchain"
	NetCRAQPaper = "netcraq-published"
)

// Options describe the loss of a node. The zero value of every field but Protocol is its default.
type Options struct {
	Protocol  string
	Groups    int           // virtual groups of NetChain; default 1
	Victim    string        // head, middle or tail; default middle
	Objects   int           // stored; default DefaultObjects
	PerSecond float64       // objects that the control plane copies a second; default DefaultPerSecond
	Writers   int           // clients that write, each a key of its own; default DefaultClients
	Readers   int           // and that read
	Pause     time.Duration // of a client between two operations; default DefaultPause
	Quiet     time.Duration // before the failure, between failover and recovery, and after it; default DefaultQuiet
	Seed      uint64
}

// Defaults of [Options]: clients and pauses are those of this project's own trial.
const (
	DefaultObjects   = 10_000
	DefaultPerSecond = 5_000
	DefaultClients   = 24
	DefaultPause     = 10 * time.Millisecond
	DefaultQuiet     = 2 * time.Second
)

// chainNodes are the nodes of the chain; one more waits to take the victim's place.
const chainNodes = 3

// places in the chain, by name.
var places = []string{"head", "middle", "tail"}

// maxObjects keeps every object a key of its own in 16 bits of groups and 32 of ids.
const maxObjects = 1_000_000

func (o *Options) complete() error {
	setDefault(&o.Groups, 1)
	setDefault(&o.Victim, places[1])
	setDefault(&o.Objects, DefaultObjects)
	setDefault(&o.PerSecond, DefaultPerSecond)
	setDefault(&o.Writers, DefaultClients)
	setDefault(&o.Readers, DefaultClients)
	setDefault(&o.Pause, DefaultPause)
	setDefault(&o.Quiet, DefaultQuiet)
	switch {
	case o.Protocol != NetChain && o.Protocol != NetCRAQPaper:
		return fmt.Errorf("no protocol %q: want %s or %s", o.Protocol, NetChain, NetCRAQPaper)
	case o.Protocol == NetCRAQPaper && o.Groups != 1:
		return fmt.Errorf("NetCRAQ as published has no virtual groups: %d make no sense", o.Groups)
	case o.Groups < 1 || o.Objects < o.Groups || o.Objects > maxObjects:
		return fmt.Errorf(
			"%d objects in %d groups: want at least one group, at least as many objects, and at most %d", o.Objects,
			o.Groups, maxObjects)
	case !slices.Contains(places, o.Victim):
		return fmt.Errorf("no place %q in a chain: want %s", o.Victim, strings.Join(places, ", "))
	case o.Writers < 1 || o.Readers < 1 || o.Writers+o.Readers > o.Objects:
		return fmt.Errorf(
			"%d writers and %d readers of %d objects: want at least one of both, and an object for each", o.Writers,
			o.Readers, o.Objects)
	case o.PerSecond <= 0 || o.Pause <= 0 || o.Quiet <= 0:
		return fmt.Errorf("rates and times must be positive")
	}
	return nil
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// patience is how long a client waits for the answer to one operation: longer than anything here lasts.
const patience = 2 * time.Minute

// clientOptions are those of every client.
func clientOptions(r harness) client.Options {
	return client.Options{Listen: r.network().Listen, Timeout: patience}
}
