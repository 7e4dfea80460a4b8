package operate

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// explainResult is the output of `netcraq placement explain --json`.
type explainResult struct {
	Gateways []pages.Explained `json:"gateways"`
	Failed   []pages.Failure   `json:"failed,omitempty"` // gateways without an answer
}

func newExplainCommand() *cobra.Command {
	var client cli.GatewayFlags
	var json bool
	c := &cobra.Command{
		Use:   "explain KEY",
		Short: "Explain why running gateways cache a key or not",
		Long: `Explain why running gateways cache a key or not.

Every gateway decides by itself. A key is cached if its benefit (its reads, less a quarter of its writes, lately) reaches the
threshold, and if keys that bring more for each KiB leave room. --pin and --exclude of netcraq gateway come before that.
The source of reads and writes is the gateway, which counts those of its clients, or the switch: the chain's nodes count
those of others, once the gateway has cached the key.`,
		Example: `  netcraq placement explain /registry/namespaces/kube-system
  netcraq placement explain /registry/leases/x --gateways 192.0.2.1:23790,192.0.2.2:23790 --json`,
		Args: cli.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := client.Load(); err != nil {
				return err
			}
			list, failed, err := client.Explain(c.Context(), args[0])
			if err != nil {
				return err
			}
			cli.WarnGateways(c.ErrOrStderr(), failed)
			if json {
				return cli.PrintJSON(c.OutOrStdout(), explainResult{list, failed})
			}
			return printExplained(c.OutOrStdout(), list)
		},
	}
	client.Add(c.Flags())
	c.Flags().DurationVar(&client.Timeout, "timeout", client.Timeout, "time to wait for the gateways' answers")
	c.Flags().BoolVar(&json, "json", false, "print one JSON object")
	return c
}

// sourceOf says who counted the reads and writes of a key.
func sourceOf(e *placement.Explanation) string {
	switch e.Source {
	case "":
		return "none lately"
	case placement.SourceBoth:
		return fmt.Sprintf("both: gateway %.2f reads/s and %.2f writes/s, switch %.2f and %.2f", e.Gateway.ReadRate,
			e.Gateway.WriteRate, e.Switch.ReadRate, e.Switch.WriteRate)
	}
	return e.Source
}

func printExplained(out io.Writer, list []pages.Explained) error {
	table := cli.NewTable(out)
	for i := range list {
		e := &list[i]
		state := "no"
		if e.Placed {
			state = fmt.Sprintf("for %.0f s", e.PlacedFor)
		}
		fmt.Fprintf(table, "gateway\t%s\n", e.Gateway)
		fmt.Fprintf(table, "cached\t%s\n", state)
		fmt.Fprintf(table, "because\t%s\n", e.Reason)
		if e.Counted {
			fmt.Fprintf(table, "reads\t%.2f/s, %.0f %% from the chain\n", e.ReadRate, 100*e.HitShare)
			fmt.Fprintf(table, "writes\t%.2f/s\n", e.WriteRate)
			fmt.Fprintf(table, "source\t%s\n", sourceOf(&e.Explanation))
			fmt.Fprintf(table, "object\t%d bytes, %d of them its value\n", e.Size, e.Bytes)
			fmt.Fprintf(table, "benefit\t%.2f/s; it needs %.2f/s\n", e.Benefit, e.Threshold)
			fmt.Fprintf(table, "for each KiB\t%.1f; the least of those cached brings %.1f\n", e.PerKiB, e.Lowest)
		}
		for _, p := range []struct{ name, prefix string }{{"pinned", e.Pinned}, {"excluded", e.Excluded}} {
			if p.prefix != "" {
				fmt.Fprintf(table, "%s\tprefix %s\n", p.name, cli.Printable(p.prefix))
			}
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
