package operate

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/proxy"
)

// allowWithin is how long gateways may take by default to take a key out of the chain.
const allowWithin = 10 * time.Second

func newAllowCommand() *cobra.Command {
	var o proxy.Options
	within, json := allowWithin, false
	c := &cobra.Command{
		Use:   "allow PREFIX",
		Short: "Let gateways cache keys again that were written past them",
		Long: `Let gateways cache keys again that were written past them.

A write that reaches etcd without a gateway makes reads of the key stale. A gateway detects it, and no gateway caches the key
from then on. Find the client and have it use a gateway; then this command ends the exclusion of all keys that begin with
PREFIX ("": all). A key stays excluded while the gateways have not taken it out of the chain: the command waits for that.`,
		Example: `  netcraq placement allow /registry/ --etcd-endpoints http://192.0.2.1:2379
  netcraq placement allow "" --json`,
		Args: cli.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.CheckEndpoints(); err != nil {
				return cli.UsageError(fmt.Errorf("--etcd-endpoints: %w", err))
			}
			ctx, cancel := context.WithTimeout(c.Context(), within)
			defer cancel()
			allowed, err := o.Allow(ctx, args[0])
			switch {
			case err != nil:
				return err
			case json:
				err = cli.PrintJSON(c.OutOrStdout(), &allowed)
			default:
				err = printAllowed(c.OutOrStdout(), &allowed)
			}
			if len(allowed.Waiting) > 0 && err == nil {
				err = waiting(&allowed)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.Endpoints, "etcd-endpoints", []string{"127.0.0.1:2379"}, "etcd's members: host:port, http://, https:// or unix://")
	f.StringVar(&o.Etcd.Cert, "cert", "", "certificate presented to etcd")
	f.StringVar(&o.Etcd.Key, "key", "", "key of --cert")
	f.StringVar(&o.Etcd.CA, "cacert", "", "authorities that sign etcd's certificates")
	f.DurationVar(&within, "timeout", within, "time to wait for etcd and the gateways")
	f.BoolVar(&json, "json", false, "print one JSON object")
	return c
}

// waiting says what to do about keys that are not allowed yet.
func waiting(a *proxy.Allowed) error {
	where := "are still in the chain"
	if a.Unsure {
		where = "may still be in the chain, since a client deleted keys of the gateways in etcd"
	}
	return fmt.Errorf("%d keys %s, for example %s: see that a gateway runs, and repeat the command",
		len(a.Waiting), where, cli.Printable(a.Waiting[0]))
}

func printAllowed(out io.Writer, a *proxy.Allowed) error {
	for _, key := range a.Keys {
		if _, err := fmt.Fprintf(out, "%s may be cached again\n", cli.Printable(key)); err != nil {
			return err
		}
	}
	if len(a.Keys)+len(a.Waiting) == 0 {
		_, err := fmt.Fprintln(out, "no key with this prefix is excluded")
		return err
	}
	return nil
}
