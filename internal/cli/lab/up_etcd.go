package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/local"
)

// etcdListen is the address at which etcdctl looks for etcd.
const etcdListen = "127.0.0.1:2379"

// checkEtcdListen returns an error if the gateway of --etcd cannot listen, before anything is built.
func checkEtcdListen(flags *upFlags) error {
	if _, err := netip.ParseAddrPort(flags.etcdListen); err != nil {
		return cli.UsageError(fmt.Errorf("%s: %w", local.ListenFlag, err))
	}
	if !flags.etcd {
		return nil
	}
	l, err := net.Listen("tcp", flags.etcdListen)
	if err != nil {
		return fmt.Errorf("nothing was started: %w: name another address with %s", err, local.ListenFlag)
	}
	return l.Close()
}

// withEtcd starts an etcd and its gateway beside a chain, if the flags say so. They serve until the context that it returns ends; end
// waits until they are gone.
func withEtcd(ctx context.Context, stdout, stderr io.Writer, c *topology.Cluster, flags upFlags) (
	serving context.Context, end func() error, err error,
) {
	if !flags.etcd {
		return ctx, func() error { return nil }, nil
	}
	e, err := local.Start(ctx, flags.etcdListen, c, cli.NewLog(stderr, flags.verbose, false))
	if err != nil {
		return ctx, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer stop() // the chain goes with it
		served <- e.Serve(ctx)
	}()
	table := cli.NewTable(stdout)
	defer table.Flush()
	fmt.Fprintf(table, "\nAn etcd is up, behind a gateway on %v that caches in the chain. Try:\n", e.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v put greeting hello\twrite, to etcd\n", e.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v get greeting\tread: a few times, and the chain answers\n", e.Addr())
	fmt.Fprintf(table, "  %s top --keys --gateways %v\tkeys that are used most, and what the chain answers\n", cli.CalledAs(), e.Addr())
	return ctx, func() error {
		stop()
		return <-served
	}, nil
}
