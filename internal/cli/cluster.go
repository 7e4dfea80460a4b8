package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// ClusterFlags name a cluster, by its file or by its controllers, and say who asks.
type ClusterFlags struct {
	File        string
	Controllers []string
	identity    string
}

func (f *ClusterFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.File, "cluster", "", "cluster `file` (default $"+connect.ClusterVariable+", else "+
		topology.DefaultPath()+")")
	flags.StringSliceVar(&f.Controllers, "controllers", nil,
		fmt.Sprintf("TCP `addresses` of controllers or nodes' agents, instead of a cluster file (port %d unless given; default $%s)", topology.ControllerPort, connect.ControllersVariable))
	flags.StringVar(&f.identity, "identity", "", "`directory` of your certificate, as netcraq certs makes it (default $"+
		connect.IdentityVariable+", else no encryption)")
}

// options are what the flags say, for package connect.
func (f *ClusterFlags) options() connect.Options {
	return connect.Options{File: f.File, Controllers: f.Controllers, Identity: f.identity}
}

// dial is how to reach controllers and agents.
func (f *ClusterFlags) Dial() (grpc.DialOption, error) {
	o := f.options()
	identity, err := o.LoadIdentity()
	if err != nil {
		return nil, err
	}
	return identity.DialOption(), nil
}

// read finds out which cluster is meant.
func (f *ClusterFlags) Read() (*topology.Cluster, error) {
	o := f.options()
	cluster, err := o.Cluster()
	return cluster, usageOfCluster(err)
}

// usageOfCluster gives wrong arguments the status of wrong usage.
func usageOfCluster(err error) error {
	if errors.Is(err, connect.ErrArguments) {
		return UsageError(err)
	}
	return err
}

// connect makes a client. A managed cluster has as long for its first answer as the options give an operation.
func (f *ClusterFlags) Connect(ctx context.Context, settings client.Options) (*connect.Client, error) {
	o := f.options()
	o.Client = settings
	c, err := connect.Open(ctx, o)
	return c, usageOfCluster(err)
}

// present is the cluster's map at this moment.
func (f *ClusterFlags) Present(ctx context.Context, within time.Duration) (*topology.Map, error) {
	cluster, err := f.Read()
	if err != nil {
		return nil, err
	}
	if !cluster.Managed() {
		return cluster.Map()
	}
	o := f.options()
	follower, err := o.Follow(ctx, cluster, within)
	if err != nil {
		return nil, err
	}
	return follower.Map(), follower.Close()
}

// LoadIdentity reads the certificate that a command is to use; nil: none.
func LoadIdentity(dir string) (*security.Identity, error) {
	if dir == "" {
		return nil, nil
	}
	return security.Load(dir)
}
