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

// joinFlags say which cluster a node is to be in.
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
		fmt.Sprintf("TCP addresses of controllers: be a node of their cluster (port %d unless given)",
			topology.ControllerPort))
	flags.StringToStringVar(&f.labels, "labels", nil, "with --join: where the node is, such as zone=a,rack=3")
	flags.Uint32Var(&f.capacity, "capacity", defaultCapacity,
		"with --join: share of the shards that the node takes, relative to others")
	flags.Uint32Var(&f.copyKiBs, "copy-kib-s", 64<<10,
		"with --join: how fast the node copies shards from another, in KiB a second; 0: as fast as it goes")
}

// check returns an error if flags contradict each other.
func (f *joinFlags) check(flags *nodeFlags) error {
	switch {
	case len(f.controllers) == 0 && len(f.labels) > 0:
		return errors.New("--labels are for a node that joins a cluster: give --join")
	case len(f.controllers) > 0 && flags.cluster != "":
		return errors.New(
			"--cluster and --join: a node gets its chains from a cluster file or from controllers, not from both")
	case len(f.controllers) > 0 && (f.given("shards") || f.given("cell-bytes")):
		return errors.New("--shards and --cell-bytes: a node that joins a cluster has those of the cluster")
	case len(f.controllers) > 0 && f.capacity == 0:
		return errors.New("--capacity 0: a node that shall take no shards is one that is drained")
	}
	return nil
}

// resolve finds out which node this is, and what its cluster needs of its data plane: from what an earlier agent left,
// or from a controller.
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

// recall returns what a data plane that lives on remembers of its cluster; nil if there is none, or if it is in none.
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
