// Package local runs an etcd of one member, and a gateway in front of it, in this process: to try things out. Its data goes when it ends.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/proxy"
	"github.com/netcraq/netcraq/internal/gateway/uses"
	"github.com/netcraq/netcraq/internal/platform/owned"
)

// Etcd is an etcd with its gateway.
type Etcd struct {
	dir     string
	etcd    *embed.Etcd
	chain   *client.Client // nil: none
	nodes   *uses.Agents   // of the chain
	gateway *proxy.Server
}

// ListenFlag is the flag of `netcraq up` that names the gateway's address.
const ListenFlag = "--etcd-listen"

// dirPrefix begins the names of directories for data.
const dirPrefix = "netcraq-etcd-"

// Start brings both up. The gateway listens on an address and caches in a chain that does not change, if there is one; etcd itself
// listens on a port of loopback that is free. Whoever starts it calls [Etcd.Serve].
func Start(ctx context.Context, listen string, cluster *topology.Cluster, log *slog.Logger) (_ *Etcd, err error) {
	e := new(Etcd)
	if e.dir, err = owned.Dir(os.TempDir(), dirPrefix, os.RemoveAll); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.etcd, err = embed.StartEtcd(config(e.dir)); err != nil {
		return nil, fmt.Errorf("an etcd in %s: %w", e.dir, err)
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
	case err := <-e.etcd.Err():
		return nil, fmt.Errorf("an etcd in %s: %w", e.dir, err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	o := proxy.Options{
		Listen: listen, ListenFlag: ListenFlag, Endpoints: []string{"http://" + e.etcd.Clients[0].Addr().String()}, Advertise: "http://" + listen, Log: log,
	}
	if cluster != nil {
		if e.chain, err = client.New(client.Options{Cluster: cluster}); err != nil {
			return nil, err
		}
		e.nodes = uses.New()
		e.nodes.Open(e.chain)
		o.Cache = &proxy.Cache{Chain: e.chain, Nodes: e.nodes, ChainName: "local", Placement: placement.Defaults()}
	}
	e.gateway, err = proxy.New(ctx, o)
	return e, err
}

func config(dir string) *embed.Config {
	free := []url.URL{{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", "0")}}
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.LogOutputs = filepath.Join(dir, "data"), "error", []string{filepath.Join(dir, "log")}
	c.ListenClientUrls, c.AdvertiseClientUrls = free, free
	c.ListenPeerUrls, c.AdvertisePeerUrls = free, free
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.UnsafeNoFsync = true // the data goes with the process
	return c
}

// Addr is where the gateway serves.
func (e *Etcd) Addr() net.Addr { return e.gateway.Addr() }

// Serve serves until ctx ends, and clears away everything.
func (e *Etcd) Serve(ctx context.Context) error {
	return errors.Join(e.gateway.Serve(ctx), e.close())
}

func (e *Etcd) close() error {
	if e.chain != nil {
		_ = errors.Join(e.nodes.Close(), e.chain.Close()) // they are used no more
	}
	if e.etcd != nil {
		e.etcd.Close()
	}
	return os.RemoveAll(e.dir)
}
