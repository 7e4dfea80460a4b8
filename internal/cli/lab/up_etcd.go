package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/local"
)

// etcdListen is the address at which etcdctl looks for etcd.
const etcdListen = "127.0.0.1:2379"

// withEtcd keeps an etcd and its gateway as long as a chain is up.
func withEtcd(ctx context.Context, stdout, stderr io.Writer, flags upFlags, up func(context.Context) error) error {
	if _, err := netip.ParseAddrPort(flags.etcdListen); err != nil {
		return cli.UsageError(fmt.Errorf("--etcd-listen: %w", err))
	}
	e, err := local.Start(ctx, flags.etcdListen, cli.NewLog(stderr, flags.verbose, false))
	if err != nil {
		return fmt.Errorf("%w; --etcd-listen names another address", err)
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer stop() // the chain goes with it
		served <- e.Serve(ctx)
	}()
	fmt.Fprintf(stdout, "\nAn etcd is up, behind a gateway on %v. Try:\n", e.Addr())
	fmt.Fprintf(stdout, "  etcdctl --endpoints %v put greeting hello\n", e.Addr())
	fmt.Fprintln(stdout, "Every request goes to etcd: this release does not cache in the chain yet.")
	err = up(ctx)
	stop()
	return errors.Join(err, <-served)
}
