package txn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/eval/peer"
)

// OpenOptions describe the system to start.
type OpenOptions struct {
	Items int    // number of items with locks, hot and other
	Plane string // for systems with planes: xdp (default) or soft
	// Progress receives the current step; may be nil.
	Progress func(step string)
}

// opener starts a system.
type opener struct {
	name, about string
	open        func(ctx context.Context, o *OpenOptions) (System, error)
}

// openers lists the systems, NetCRAQ first.
var openers = []opener{
	{"netcraq", "locks made of NetCRAQ's compare-and-swap and delete, with fencing tokens", func(
		ctx context.Context, o *OpenOptions,
	) (System, error) {
		return openNetCRAQ(ctx, o, "lock: CAS of an absent key, token: its version; unlock: DELETE; no time to live", 16,
			Direct)
	}},
	{"netcraq-lock", "the locks of NetCRAQ's Go client, with a time to live",
		func(ctx context.Context, o *OpenOptions) (System, error) {
			return openNetCRAQ(ctx, o, "client.TryLock and Unlock, time to live "+client.DefaultLockTTL.String(), recordBytes,
				func(c *client.Client, _ int) Session { return Recipe(c) })
		}},
	{"netchain", "NetChain as published: locks by compare-and-swap of the owner's id", openNetChain},
	{peer.Etcd, "etcd: a transaction that puts a key with a lease if it does not exist", openPeer(peer.Etcd)},
	{peer.ZooKeeper, "ZooKeeper: ephemeral znodes", openPeer(peer.ZooKeeper)},
}

// Systems returns the names that Open accepts.
func Systems() []string {
	names := make([]string, len(openers))
	for i := range openers {
		names[i] = openers[i].name
	}
	return names
}

// About describes a system.
func About(name string) string {
	if i := find(name); i >= 0 {
		return openers[i].about
	}
	return ""
}

func find(name string) int {
	return slices.IndexFunc(openers, func(o opener) bool { return o.name == name })
}

// Open starts a system; all locks are free.
func Open(ctx context.Context, name string, o OpenOptions) (System, error) {
	if o.Plane == "" {
		o.Plane = "xdp"
	}
	i := find(name)
	if i < 0 {
		return nil, &OptionError{fmt.Sprintf("no system %q: want %s", name, strings.Join(Systems(), ", "))}
	}
	return openers[i].open(ctx, &o)
}
