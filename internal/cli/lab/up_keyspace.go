package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/credentials"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/memory"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/local"
	"github.com/netcraq/netcraq/internal/platform/owned"
)

// keyspaceGateways is the number of gateways, each with a disk of its own.
const keyspaceGateways = 3

// keyspaceDir begins the names of directories for data that goes when the command ends.
const keyspaceDir = "netcraq-keyspace-"

// upKeyspace is a keyspace on disks with all its gateways in this process.
type upKeyspace struct {
	temporary string // directory to remove; empty: none
	servers   []*memory.Server
	chains    []*client.Client
}

// startKeyspace starts the gateways of a keyspace.
func startKeyspace(stdout, stderr io.Writer, chain Chain, flags upFlags) (_ etcdServer, err error) {
	k, dir := new(upKeyspace), flags.dataDir
	if dir == "" {
		if k.temporary, err = owned.Dir(os.TempDir(), keyspaceDir, os.RemoveAll); err != nil {
			return nil, err
		}
		dir = k.temporary
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	cluster, err := topology.Read(chain.File)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: name another directory with --data-dir", err)
	}
	near, err := local.Open(filepath.Join(dir, "record.json"))
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(flags.etcdListen)
	if err != nil {
		return nil, err
	}
	listen, log := flags.etcdListen, cli.NewLog(stderr, flags.verbose, cli.LogFormat{})
	for i := range keyspaceGateways {
		c, err := client.New(client.Options{Cluster: cluster})
		if err != nil {
			return nil, err
		}
		k.chains = append(k.chains, c)
		name := fmt.Sprintf("g%d", i+1)
		s, err := memory.Listen(memory.ServerOptions{Listen: listen, Options: memory.Options{
			Chain: c, Temporary: dir, ID: near.ID(), Secret: near.Secret(), Log: log.With("gateway", name),
			Disk: func(o driver.Options, _ credentials.TransportCredentials) (*driver.Driver, error) {
				o.Dir, o.Member, o.Record, o.Peers = filepath.Join(dir, name), name, near, near
				o.Log = chainlog.NewEras(c, nil, memory.DefaultName, near.ID(), 0)
				return driver.Open(o)
			},
		}})
		if err != nil {
			return nil, err
		}
		near.Join(s.Addr().String(), s.Handler())
		k.servers = append(k.servers, s)
		listen = net.JoinHostPort(host, "0")
	}
	k.print(stdout, dir)
	return k, nil
}

func (k *upKeyspace) print(stdout io.Writer, dir string) {
	table := cli.NewTable(stdout)
	defer table.Flush()
	endpoints := ""
	for _, s := range k.servers {
		endpoints += "," + s.Addr().String()
	}
	fmt.Fprintf(table, "\nA keyspace on disks is up. It has etcd's API at %d gateways, and its data in %s. Try:\n", len(k.servers), dir)
	fmt.Fprintf(table, "  etcdctl --endpoints %s put greeting hello\twrite: to the chain, and to two disks\n", endpoints[1:])
	fmt.Fprintf(table, "  etcdctl --endpoints %s get greeting\tread, from any gateway's own copy\n", endpoints[1:])
	fmt.Fprintf(table, "  etcdctl --endpoints %s member list\tthe gateways\n", k.servers[0].Addr())
}

// Serve implements etcdServer.
func (k *upKeyspace) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range k.servers {
		group.Go(func() error { return s.Serve(ctx) })
	}
	return errors.Join(group.Wait(), k.close())
}

func (k *upKeyspace) close() error {
	for _, c := range k.chains {
		_ = c.Close() // it is used no more
	}
	if k.temporary == "" {
		return nil
	}
	return os.RemoveAll(k.temporary)
}
