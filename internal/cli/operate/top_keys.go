package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// keysFlags are those of `netcraq top --keys`.
type keysFlags struct {
	keys   bool
	most   int
	client cli.GatewayFlags
}

func (k *keysFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&k.keys, "keys", false, "print the keys that clients of gateways use most")
	f.IntVar(&k.most, "most", 20, "with --keys: number of keys")
	k.client.Add(f)
}

// keysResult is the output of `netcraq top --keys --json`.
type keysResult struct {
	Keys   []placement.Explanation `json:"keys"`
	Failed []pages.Failure         `json:"failed,omitempty"` // gateways without an answer
}

func runKeys(c *cobra.Command, k *keysFlags, flags *leaderFlags, once bool) error {
	if k.most < 1 {
		return cli.UsageError(errors.New("--most: want a number of keys from 1"))
	}
	if err := k.client.Load(); err != nil {
		return err
	}
	k.client.Timeout = flags.timeout
	keys, failed, err := k.client.Hottest(c.Context(), k.most)
	out := c.OutOrStdout()
	switch {
	case err != nil:
		return err
	case !once:
		return k.follow(c.Context(), out, keys, failed)
	}
	cli.WarnGateways(c.ErrOrStderr(), failed)
	if flags.json {
		return cli.PrintJSON(out, keysResult{keys, failed})
	}
	return printKeys(out, keys)
}

// keysEvery is how often the keys on a terminal are updated.
const keysEvery = 2 * time.Second

// follow draws the keys until ctx ends or q is pressed. Gateways that do not answer are named above the keys.
func (k *keysFlags) follow(ctx context.Context, out io.Writer, keys []placement.Explanation, failed []pages.Failure) error {
	ctx, _, stop := untilQuit(ctx)
	defer stop()
	fmt.Fprint(out, enterScreen)
	defer fmt.Fprint(out, leaveScreen)
	for trouble := ""; ; {
		var text strings.Builder
		text.WriteString(trouble)
		cli.WarnGateways(&text, failed)
		if err := printKeys(&text, keys); err != nil {
			return err
		}
		redraw(out, text.String())
		if !retry.Sleep(ctx, keysEvery) {
			return nil
		}
		now, away, err := k.client.Hottest(ctx, k.most)
		if err != nil {
			trouble = err.Error() + "\n"
			continue
		}
		trouble, keys, failed = "", now, away
	}
}

func printKeys(out io.Writer, keys []placement.Explanation) error {
	table := cli.NewTable(out)
	fmt.Fprintln(table, "key\treads/s\twrites/s\tfrom the chain\tbytes\tcached\treason")
	for i := range keys {
		k := &keys[i]
		cached := "no"
		if k.Placed {
			cached = "yes"
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.0f %%\t%d\t%s\t%s\n", cli.Printable(k.Key), k.ReadRate, k.WriteRate,
			100*k.HitShare, k.Bytes, cached, k.Reason)
	}
	return table.Flush()
}
