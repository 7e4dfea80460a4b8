package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/topology"
)

// identityVariable is the environment variable that names the directory of the user's certificate.
const identityVariable = "NETCRAQ_IDENTITY"

// controllersVariable is the environment variable that stands for --controllers.
const controllersVariable = "NETCRAQ_CONTROLLERS"

// clusterFlags name a cluster, by its file or by its controllers, and say who asks.
type clusterFlags struct {
	file        string
	controllers []string
	identity    string
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "cluster", "", "cluster `file` (default $"+topology.PathVariable+", else "+topology.DefaultPath()+")")
	flags.StringSliceVar(&f.controllers, "controllers", nil, fmt.Sprintf("TCP `addresses` of controllers or nodes' agents, instead of a cluster file (port %d unless given; default $%s)", topology.ControllerPort, controllersVariable))
	flags.StringVar(&f.identity, "identity", "", "`directory` of your certificate, as netcraq certs makes it (default $"+identityVariable+", else no encryption)")
}

// dial is how to reach controllers and agents.
func (f *clusterFlags) dial() (grpc.DialOption, error) {
	dir := f.identity
	if dir == "" {
		dir = os.Getenv(identityVariable)
	}
	identity, err := loadIdentity(dir)
	if err != nil {
		return nil, err
	}
	return identity.DialOption(), nil
}

// read finds out which cluster is meant.
func (f *clusterFlags) read() (*topology.Cluster, error) {
	if len(f.controllers) > 0 && f.file != "" {
		return nil, usageError(errors.New("--cluster and --controllers exclude each other"))
	}
	controllers := f.controllers
	if given := os.Getenv(controllersVariable); given != "" && len(controllers) == 0 && f.file == "" {
		controllers = strings.Split(given, ",")
	}
	if len(controllers) > 0 {
		c := new(topology.Cluster)
		for _, address := range controllers {
			address, err := withPort(address)
			if err != nil {
				return nil, usageError(fmt.Errorf("--controllers: %w", err))
			}
			c.Controllers = append(c.Controllers, address)
		}
		if err := c.Validate(); err != nil {
			return nil, usageError(fmt.Errorf("--controllers: %w", err))
		}
		return c, nil
	}
	path, err := topology.Find(f.file)
	if err != nil {
		return nil, err
	}
	cluster, err := topology.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no cluster file %s: start a cluster with `netcraq up`, or name its file with --cluster or $%s",
			path, topology.PathVariable)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cluster file: %w", err)
	}
	return cluster, nil
}

// connection is a client of a cluster, and what follows the cluster's changes for it.
type connection struct {
	*client.Client
	follower *follow.Follower // nil for a static cluster
}

// connect makes a client. A managed cluster has as long for its first answer as the options give an operation.
func (f *clusterFlags) connect(ctx context.Context, o client.Options) (*connection, error) {
	cluster, err := f.read()
	if err != nil {
		return nil, err
	}
	c := new(connection)
	if !cluster.Managed() {
		o.Cluster = cluster
	} else if c.follower, err = f.formed(ctx, cluster, o.Timeout); err != nil {
		return nil, err
	} else {
		o.Follow = c.follower
	}
	if c.Client, err = client.New(o); err != nil {
		return nil, errors.Join(err, c.closeFollower())
	}
	return c, nil
}

// formed follows a cluster once it has chains: one that was just started gets them when enough nodes have joined.
func (f *clusterFlags) formed(ctx context.Context, c *topology.Cluster, within time.Duration) (*follow.Follower, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(within, client.DefaultTimeout))
	defer cancel()
	follower, err := f.follow(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	if err := follower.Await(ctx, (*topology.Map).Formed); err != nil {
		err = fmt.Errorf("the cluster still waits for nodes, so nothing can be read or written; `netcraq status` says for how many: %w", err)
		return nil, errors.Join(err, follower.Close())
	}
	return follower, nil
}

// Close ends both.
func (c *connection) Close() error { return errors.Join(c.Client.Close(), c.closeFollower()) }

func (c *connection) closeFollower() error {
	if c.follower == nil {
		return nil
	}
	return c.follower.Close()
}

func (f *clusterFlags) follow(ctx context.Context, c *topology.Cluster, within time.Duration) (*follow.Follower, error) {
	dial, err := f.dial()
	if err != nil {
		return nil, err
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	return follow.Open(ctx, follow.Options{Addrs: c.Controllers, Cluster: c.Name, Dial: []grpc.DialOption{dial}})
}

// present is the cluster's map at this moment.
func (f *clusterFlags) present(ctx context.Context, within time.Duration) (*topology.Map, error) {
	cluster, err := f.read()
	if err != nil {
		return nil, err
	}
	if !cluster.Managed() {
		return cluster.Map()
	}
	follower, err := f.follow(ctx, cluster, within)
	if err != nil {
		return nil, err
	}
	return follower.Map(), follower.Close()
}
