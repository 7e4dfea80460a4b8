package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// defaultCapacity is the default of --capacity.
const defaultCapacity = 100

// joinFlags name the cluster that a node joins.
type joinFlags struct {
	controllers []string
	labels      map[string]string
	capacity    uint32
	copyKiBs    uint32
	given       func(flag string) bool
}

func (f *joinFlags) add(flags *pflag.FlagSet) {
	f.given = flags.Changed
	flags.StringSliceVar(&f.controllers, "join", nil,
		fmt.Sprintf("TCP addresses of the controllers of the cluster to join (default port %d)",
			topology.ControllerPort))
	flags.StringToStringVar(&f.labels, "labels", nil, "with --join: where the node is, such as zone=a,rack=3")
	flags.Uint32Var(&f.capacity, "capacity", defaultCapacity,
		"with --join: share of the shards that the node takes, relative to others")
	flags.Uint32Var(&f.copyKiBs, "copy-kib-s", 64<<10,
		"with --join: limit of the rate at which the node copies shards from others, in KiB/s; 0: no limit")
}

// check returns an error if flags contradict each other.
func (f *joinFlags) check(flags *nodeFlags) error {
	switch {
	case len(f.controllers) == 0 && len(f.labels) > 0:
		return errors.New("--labels needs --join: only a node that joins a cluster has labels")
	case len(f.controllers) > 0 && flags.cluster != "":
		return errors.New(
			"--cluster and --join exclude each other: a node gets its chains from a file or from controllers")
	case len(f.controllers) > 0 && (f.given("shards") || f.given("cell-bytes")):
		return errors.New("--shards and --cell-bytes exclude --join: a node that joins a cluster uses the cluster's values")
	case len(f.controllers) > 0 && f.capacity == 0:
		return errors.New("--capacity must be at least 1; to keep shards off a node, use `netcraq drain`")
	}
	return nil
}

// resolve returns the node's identity and the settings that the cluster prescribes for its data plane. It takes them from
// the pinned data plane of an earlier agent, or else from a controller.
func (f *joinFlags) resolve(ctx context.Context, log *slog.Logger, flags *nodeFlags, api string,
	dial grpc.DialOption) (*agent.Join, error) {
	join := &agent.Join{DialOptions: []grpc.DialOption{dial}, Labels: f.labels, Capacity: f.capacity, CopyKiBs: f.copyKiBs,
		Identity: agent.NewIdentity()}
	for _, address := range f.controllers {
		address, err := topology.ControllerAddr(address)
		if err != nil {
			return nil, cli.UsageError(fmt.Errorf("--join: %w", err))
		}
		join.Controllers = append(join.Controllers, address)
	}
	kept, err := recall(flags.plane.pin)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		join.Identity = *kept
		return join, nil
	}
	join.Identity, err = join.Ask(ctx, flags.name, flags.plane.Addr.String(), api, log)
	return join, err
}

// recall returns the identity that a pinned data plane stores. It returns nil if no plane is pinned or it is in no cluster.
func recall(pin string) (*agent.Identity, error) {
	if !xdp.Pinned(pin) {
		return nil, nil
	}
	note, err := xdp.Recall(pin)
	if err != nil || note == nil {
		return nil, err
	}
	id, err := agent.ParseIdentity(note)
	if err != nil {
		return nil, fmt.Errorf("%w; `netcraq node --remove --pin %s` ends that node", err, pin)
	}
	return &id, nil
}
