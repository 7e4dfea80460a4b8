package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/internal/cli"
)

// ownFlags name an etcd and gateways that run already.
type ownFlags struct {
	etcd     []string
	gateways cli.GatewayFlags
}

func (o *ownFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&o.etcd, "etcd-endpoints", nil, "endpoints of an etcd that runs already, which is compared with --gateways")
	o.gateways.Add(f)
	f.Lookup("gateways").Usage = "with --etcd-endpoints: addresses of gateways that serve this etcd"
	f.Lookup("cert").Usage = "with --etcd-endpoints: certificate presented to etcd and the gateways"
	f.Lookup("cacert").Usage = "with --etcd-endpoints: authorities that sign their certificates"
}

// ownShape are the flags that both comparisons have.
var ownShape = []string{"clients", "conns", "hot-keys", "zipf-keys", "value-bytes", "seconds", "rounds", "seed", "json", "csv",
	"etcd-endpoints", "gateways", "cert", "key", "cacert"}

// unused refuses flags that need --etcd-endpoints.
func (o *ownFlags) unused(f *pflag.FlagSet) error {
	for _, name := range []string{"gateways", "cert", "key", "cacert"} {
		if f.Changed(name) {
			return cli.UsageError(fmt.Errorf("--%s needs --etcd-endpoints, the etcd that the gateways serve", name))
		}
	}
	return nil
}

// report compares, and prints the result. Flags that were not given have the defaults of a comparison that burdens little.
func (o *ownFlags) report(c *cobra.Command, out *benchOutput, given *etcdgateway.Options) error {
	own, f := etcdgateway.OwnDefaults(), c.Flags()
	var err error
	f.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(ownShape, flag.Name) {
			err = errors.Join(err, cli.UsageError(fmt.Errorf("--%s is not for an etcd that runs already", flag.Name)))
		}
	})
	if err = errors.Join(err, o.gateways.Load()); err != nil {
		return err
	}
	for _, n := range []struct {
		name     string
		to, from *int
	}{
		{"clients", &own.Clients, &given.Clients}, {"conns", &own.Conns, &given.Conns}, {"hot-keys", &own.HotKeys, &given.HotKeys},
		{"zipf-keys", &own.Keys, &given.ZipfKeys}, {"value-bytes", &own.ValueBytes, &given.ValueBytes}, {"rounds", &own.Rounds, &given.Rounds},
	} {
		if f.Changed(n.name) {
			*n.to = *n.from
		}
	}
	if f.Changed("seconds") {
		own.Seconds = given.Seconds
	}
	own.Seed, own.Etcd, own.Gateways, own.Progress = given.Seed, o.etcd, o.gateways.Client, out.progress()
	if f.Changed("cert") || f.Changed("cacert") {
		own.TLS = o.gateways.TLS
	}
	return reportBench(c, out, func(ctx context.Context) (*etcdgateway.OwnResult, error) {
		r, err := own.Run(ctx)
		if errors.As(err, new(*etcdgateway.OptionError)) {
			err = cli.UsageError(err)
		}
		return r, err
	})
}
