// Package connect opens a cluster as the commands do: by its file or its controllers, with the user's identity. The
// NETCRAQ_* environment variables are the defaults.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Environment variables that stand for empty fields of [Options].
const (
	ClusterVariable     = topology.PathVariable // Options.File
	ControllersVariable = "NETCRAQ_CONTROLLERS" // Options.Controllers, with commas
	IdentityVariable    = "NETCRAQ_IDENTITY"    // Options.Identity
)

// ErrArguments: the options contradict each other, or are not valid.
var ErrArguments = errors.New("wrong arguments")

// Options name a cluster and the client. The zero value takes all of it from the environment, and looks for the file of
// `netcraq up` where that says nothing.
type Options struct {
	// File is the cluster file.
	File string
	// Controllers are TCP addresses of controllers or of nodes' agents, instead of a file.
	Controllers []string
	// Identity is the directory of the certificate, as `netcraq certs make` makes it.
	Identity string
	// Notice gets a text for the user if the cluster is root's, which this user has not named. nil: nobody is told.
	Notice func(text string)
	// Client configures the client; its Cluster and Follow are filled in.
	Client client.Options
}

// Client is a client of a cluster, with the follower of its map.
type Client struct {
	*client.Client
	follower *follow.Follower // nil: the cluster does not change
}

// Open makes a client. A cluster that runs itself has as long for its first answer, and to get its first chains, as the
// options give an operation.
func Open(ctx context.Context, o Options) (*Client, error) {
	cluster, err := o.Cluster()
	if err != nil {
		return nil, err
	}
	c, settings := new(Client), o.Client
	if cluster.Managed() {
		if c.follower, err = o.formed(ctx, cluster); err != nil {
			return nil, err
		}
		settings.Follow = c.follower
	} else {
		settings.Cluster = cluster
	}
	if c.Client, err = client.New(settings); err != nil {
		return nil, errors.Join(err, c.closeFollower())
	}
	return c, nil
}

// Close ends the client and its follower.
func (c *Client) Close() error { return errors.Join(c.Client.Close(), c.closeFollower()) }

func (c *Client) closeFollower() error {
	if c.follower == nil {
		return nil
	}
	return c.follower.Close()
}

// Cluster finds out which cluster is meant. It asks no other machine.
func (o *Options) Cluster() (*client.Cluster, error) {
	if len(o.Controllers) > 0 && o.File != "" {
		return nil, fmt.Errorf("%w: --cluster and --controllers exclude each other", ErrArguments)
	}
	controllers, from := o.Controllers, "--controllers"
	if given := os.Getenv(ControllersVariable); given != "" && len(controllers) == 0 && o.File == "" {
		controllers, from = strings.Split(given, ","), "$"+ControllersVariable
	}
	if len(controllers) > 0 {
		return ofControllers(controllers, from)
	}
	path, roots, err := topology.Find(o.File)
	if err != nil {
		return nil, err
	}
	if roots && o.Notice != nil {
		o.Notice(fmt.Sprintf("using root's cluster file %s: --cluster, --controllers or $%s name another cluster",
			path, ClusterVariable))
	}
	cluster, err := topology.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil,
			fmt.Errorf("there is no cluster file %s: start a chain with `netcraq up`, or name a cluster: its file with --cluster "+
				"or $%s, or its controllers with --controllers", path, ClusterVariable)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cluster file: %w", err)
	}
	return cluster, nil
}

func ofControllers(controllers []string, from string) (*client.Cluster, error) {
	c := new(topology.Cluster)
	for _, given := range controllers {
		address, err := topology.ControllerAddr(strings.TrimSpace(given))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrArguments, from, err)
		}
		c.Controllers = append(c.Controllers, address)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrArguments, from, err)
	}
	return c, nil
}

// LoadIdentity reads the certificate to show; nil: connections are open.
func (o *Options) LoadIdentity() (*follow.Identity, error) {
	return follow.LoadIdentity(cmp.Or(o.Identity, os.Getenv(IdentityVariable)))
}

// Follow follows a cluster with controllers, from its first map on, for which there is so much time; 0: as ctx has it.
func (o *Options) Follow(ctx context.Context, c *client.Cluster, within time.Duration) (*follow.Follower, error) {
	identity, err := o.LoadIdentity()
	if err != nil {
		return nil, err
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	return follow.Open(ctx, follow.Options{Addrs: c.Controllers, Cluster: c.Name, Identity: identity})
}

// formed follows a cluster once it has chains: one that was just started gets them when enough nodes have joined.
func (o *Options) formed(ctx context.Context, c *client.Cluster) (*follow.Follower, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Client.Timeout, client.DefaultTimeout))
	defer cancel()
	follower, err := o.Follow(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	if err := follower.Await(ctx, (*client.Map).Formed); err != nil {
		err = fmt.Errorf(
			"the cluster still waits for nodes, so nothing can be read or written; `netcraq status` shows how many: %w", err)
		return nil, errors.Join(err, follower.Close())
	}
	return follower, nil
}

// Watch calls changed with the present map and with each newer one, until stop is called.
func (c *Client) Watch(changed func(*client.Map)) (stop func()) {
	if c.follower == nil {
		changed(c.Map())
		return func() {}
	}
	return c.follower.Watch(changed)
}
