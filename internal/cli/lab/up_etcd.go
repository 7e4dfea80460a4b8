package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/local"
	memberlocal "github.com/netcraq/netcraq/internal/member/local"
)

// etcdListen is the address at which etcdctl looks for etcd.
const etcdListen = "127.0.0.1:2379"

// checkEtcdListen returns an error if what --memory, --etcd, --gateway or --keyspace starts cannot listen, before
// anything is built.
func checkEtcdListen(flags *upFlags) error {
	if _, err := netip.ParseAddrPort(flags.etcdListen); err != nil {
		return cli.UsageError(fmt.Errorf("%s: %w", local.ListenFlag, err))
	}
	given := 0
	for _, on := range []bool{flags.memory, flags.etcd, flags.gateway, flags.keyspace} {
		if on {
			given++
		}
	}
	switch {
	case given > 1:
		return cli.UsageError(errors.New("--memory, --etcd, --gateway and --keyspace: give one of them"))
	case flags.dataDir != "" && !flags.keyspace:
		return cli.UsageError(errors.New("--data-dir: only with --keyspace"))
	case given == 0:
		return nil
	}
	l, err := net.Listen("tcp", flags.etcdListen)
	if err != nil {
		return fmt.Errorf("nothing was started: %w: name another address with %s", err, local.ListenFlag)
	}
	return l.Close()
}

// etcdServer serves etcd's API beside a chain.
type etcdServer interface {
	// Serve serves until ctx ends, and clears away everything.
	Serve(ctx context.Context) error
}

// withEtcd starts an etcd beside a chain, if the flags say so. It serves until the context that withEtcd returns ends;
// end waits until it is gone.
func withEtcd(ctx context.Context, stdout, stderr io.Writer, chain Chain, flags upFlags) (
	serving context.Context, end func() error, err error,
) {
	var e etcdServer
	switch {
	case flags.etcd:
		e, err = upMember(ctx, stdout, stderr, chain, flags)
	case flags.memory:
		e, err = upMemory(stdout, stderr, chain, flags)
	case flags.gateway:
		e, err = upGateway(ctx, stdout, stderr, chain, flags)
	case flags.keyspace:
		e, err = startKeyspace(stdout, stderr, chain, flags)
	default:
		return ctx, func() error { return nil }, nil
	}
	if err != nil {
		return ctx, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer stop() // the chain goes with it
		served <- e.Serve(ctx)
	}()
	return ctx, func() error {
		stop()
		return <-served
	}, nil
}

// upMember starts an etcd that reads through the chain.
func upMember(ctx context.Context, stdout, stderr io.Writer, chain Chain, flags upFlags) (etcdServer, error) {
	product, err := cli.ProductPath()
	if err != nil {
		return nil, err
	}
	o := memberlocal.Options{Program: product, Listen: flags.etcdListen, Chain: chain.File, Pins: chain.Pins}
	if flags.verbose {
		o.Log = stderr
	}
	m, err := memberlocal.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	table := cli.NewTable(stdout)
	defer table.Flush()
	fmt.Fprintf(table, "\nAn etcd is up on %s. It answers linearizable reads through the chain. Try:\n", m.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %s put greeting hello\twrite, as in every etcd\n", m.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %s get greeting\tread, without asking Raft\n", m.Addr())
	fmt.Fprintf(table, "  curl -s %s/metrics | grep ^netcraq_member\tcount what the chain answered\n", m.Addr())
	fmt.Fprintf(table, "  %s etcd off --data-dir %s\tread as etcd does, until etcd on\n", cli.CalledAs(), m.DataDir())
	return m, nil
}

// upMemory starts a gateway of a keyspace in the chain's memory.
func upMemory(stdout, stderr io.Writer, chain Chain, flags upFlags) (etcdServer, error) {
	cluster, err := topology.Read(chain.File)
	if err != nil {
		return nil, err
	}
	m, err := local.StartMemory(flags.etcdListen, cluster, cli.NewLog(stderr, flags.verbose, cli.LogFormat{}))
	if err != nil {
		return nil, err
	}
	table := cli.NewTable(stdout)
	defer table.Flush()
	fmt.Fprintf(table, "\netcd's API is served on %v from the chain's memory, for every language's etcd client. Try:\n", m.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v put greeting hello\twrite\n", m.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v lock mine echo held\ta lock, by a lease\n", m.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v watch greeting\twait for changes\n", m.Addr())
	return m, nil
}

// upGateway starts an etcd behind a gateway that caches in the chain.
func upGateway(ctx context.Context, stdout, stderr io.Writer, chain Chain, flags upFlags) (etcdServer, error) {
	cluster, err := topology.Read(chain.File)
	if err != nil {
		return nil, err
	}
	e, err := local.Start(ctx, flags.etcdListen, cluster, cli.NewLog(stderr, flags.verbose, cli.LogFormat{}))
	if err != nil {
		return nil, err
	}
	table := cli.NewTable(stdout)
	defer table.Flush()
	fmt.Fprintf(table, "\nAn etcd is up, behind a gateway on %v that caches in the chain. Try:\n", e.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v put greeting hello\twrite, to etcd\n", e.Addr())
	fmt.Fprintf(table, "  etcdctl --endpoints %v get greeting\tread: a few times, and the chain answers\n", e.Addr())
	fmt.Fprintf(table, "  %s top --keys --gateways %v\tkeys that are used most, and what the chain answers\n",
		cli.CalledAs(), e.Addr())
	return e, nil
}
