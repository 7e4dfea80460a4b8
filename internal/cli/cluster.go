package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// ClusterFlags name a cluster, by its file or by its controllers, and the client's certificate.
type ClusterFlags struct {
	File        string
	Controllers []string
	identity    string
}

func (f *ClusterFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.File, "cluster", "", "cluster `file` (default $"+connect.ClusterVariable+", else "+
		topology.DefaultPath()+")")
	flags.StringSliceVar(&f.Controllers, "controllers", nil,
		fmt.Sprintf("TCP `addresses` of controllers or agents, instead of a cluster file (default port %d; default $%s)",
			topology.ControllerPort, connect.ControllersVariable))
	flags.StringVar(&f.identity, "identity", "", "`directory` of your certificate, as netcraq certs makes it (default $"+
		connect.IdentityVariable+", else no encryption)")
}

// options returns the flags as options of package connect.
func (f *ClusterFlags) options() connect.Options {
	return connect.Options{File: f.File, Controllers: f.Controllers, Identity: f.identity, Notice: notice}
}

// Identity is the directory of the client's certificate; empty: none.
func (f *ClusterFlags) Identity() string {
	return cmp.Or(f.identity, os.Getenv(connect.IdentityVariable))
}

// notice tells the user, once, which cluster a command uses.
func notice(text string) {
	noticed.Do(func() { fmt.Fprintln(os.Stderr, ProductName+":", text) })
}

var noticed sync.Once

// Dial returns the option with which to dial controllers and agents.
func (f *ClusterFlags) Dial() (grpc.DialOption, error) {
	o := f.options()
	identity, err := o.LoadIdentity()
	if err != nil {
		return nil, err
	}
	return identity.DialOption(), nil
}

// Read returns the cluster that the flags name.
func (f *ClusterFlags) Read() (*topology.Cluster, error) {
	o := f.options()
	cluster, err := o.Cluster()
	return cluster, usageOfCluster(err)
}

// usageOfCluster gives errors of the arguments the exit status of wrong usage.
func usageOfCluster(err error) error {
	if errors.Is(err, connect.ErrArguments) {
		return UsageError(err)
	}
	return err
}

// Connect returns a client. It waits for a managed cluster's first map as long as the settings allow for an operation.
func (f *ClusterFlags) Connect(ctx context.Context, settings client.Options) (*connect.Client, error) {
	o := f.options()
	o.Client = settings
	c, err := connect.Open(ctx, o)
	return c, usageOfCluster(err)
}

// Await connects as [ClusterFlags.Connect] does, and tries until ctx ends while the cluster is still forming or does
// not answer. It says once what it waits for. An error is one that will not pass, or that of ctx.
func (f *ClusterFlags) Await(ctx context.Context, settings client.Options, log *slog.Logger) (*connect.Client, error) {
	waits := Waits(log, "waiting for the cluster")
	for {
		c, err := f.Connect(ctx, settings)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return c, err
		}
		waits(err)
	}
}

// Waits returns a function that logs each reason to wait once.
func Waits(log *slog.Logger, message string) func(reason error) {
	said := make(map[string]bool)
	return func(reason error) {
		if text := reason.Error(); !said[text] {
			said[text] = true
			log.Warn(message, "reason", text)
		}
	}
}

// Present returns the current map of the cluster.
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

// LoadIdentity reads the certificate in dir. Without a directory it returns nil.
func LoadIdentity(dir string) (*security.Identity, error) {
	if dir == "" {
		return nil, nil
	}
	return security.Load(dir)
}
