package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/platform/owned"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// Chain is a chain that commands on this machine reach.
type Chain struct {
	File  string // its cluster file
	Pins  string // directory with the pins of its nodes; empty: there are none
	About string
	Close func() error
}

// chainDir begins the names of directories for cluster files.
const chainDir = "netcraq-chain-"

// ChainOptions configure a chain.
type ChainOptions struct {
	Plane    string // auto is XDP for root, else sockets
	Name     string // of the lab
	Nodes    int
	Shards   int
	Progress func(step string)
}

// OpenChain starts a chain of XDP nodes in a lab, or of nodes on sockets in this process.
func OpenChain(ctx context.Context, o ChainOptions) (*Chain, error) {
	plane := o.Plane
	if plane == cli.PlaneAuto {
		plane = cli.PlaneSoft
		if os.Geteuid() == 0 {
			plane = cli.PlaneXDP
		}
	}
	switch plane {
	case cli.PlaneSoft:
		return openSoftChain(ctx, o.Nodes, o.Shards)
	case cli.PlaneXDP:
		return openLabChain(ctx, o)
	}
	return nil, cli.UsageError(fmt.Errorf("--plane %q: want %s, %s or %s", plane, cli.PlaneAuto, cli.PlaneSoft, cli.PlaneXDP))
}

func openLabChain(ctx context.Context, c ChainOptions) (*Chain, error) {
	o := lab.Options{
		Name: c.Name, Topology: lab.Line, Nodes: c.Nodes, Shards: c.Shards, Direct: true, Owned: true, Progress: c.Progress,
	}
	if err := setAgent(&o, cli.PlaneXDP); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, cli.UsageError(err)
	}
	l, err := lab.Up(ctx, o)
	if err != nil {
		return nil, err
	}
	down := func() error {
		_, err := lab.Down(context.WithoutCancel(ctx), l.Name)
		return err
	}
	return &Chain{
		File: l.ClusterFile(), Pins: l.PinsDir(), About: fmt.Sprintf("%d XDP nodes in a lab, each a process", c.Nodes), Close: down,
	}, nil
}

func openSoftChain(ctx context.Context, nodes, shards int) (*Chain, error) {
	cluster, err := freeLoopback(nodes, shards)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	dir, err := owned.Dir(os.TempDir(), chainDir, os.RemoveAll)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, running := errgroup.WithContext(running)
	end := func() error {
		stop()
		return errors.Join(group.Wait(), os.RemoveAll(dir))
	}
	if err := startNodes(running, group, cluster, nil, false); err != nil {
		return nil, errors.Join(err, end())
	}
	file := filepath.Join(dir, "cluster.yaml")
	text, err := cluster.Marshal()
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &Chain{
		File: file, About: fmt.Sprintf("%d nodes on sockets in the clients' process", nodes), Close: end,
	}, nil
}
