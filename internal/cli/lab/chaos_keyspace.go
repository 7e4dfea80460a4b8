package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// keyspaceObjects are for the logs of the present era and of some that are not removed yet.
const keyspaceObjects = 4 * chainlog.DefaultEntries

// runKeyspaceChaos is `netcraq lab chaos --keyspace`.
func runKeyspaceChaos(ctx context.Context, out, stderr io.Writer, name string, flags *chaosFlags) error {
	flags.CellBytes, flags.Objects = gatewayCellBytes, gatewayObjects+keyspaceObjects
	o, err := flags.Options(name)
	if err != nil {
		return err
	}
	o.Owned, o.Progress = true, progressTo(stderr)
	product, err := cli.ProductPath()
	if err != nil {
		return err
	}
	show := NewShow(stderr)
	fmt.Fprintf(stderr, "seed %d\n", flags.seed)
	trial := chaos.KeyspaceOptions{
		ServedOptions: flags.served(name, o, show), Dir: keyspaceDataDir, Disks: countingDisks, AcceptLosses: acceptLosses,
		Gateway: func(l *lab.Lab, h lab.Host) []string {
			return []string{
				product, "keyspace", "--data-dir", keyspaceDataDir(l, h), "--listen", gatewayAddress(h), "--member", h.Name,
				"--controllers", strings.Join(l.Controllers(), ","),
			}
		},
	}
	trial.Address, trial.HistoryAddress = gatewayAddress, gatewayAddress
	result, err := chaos.Keyspaces(ctx, trial)
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return printKeyspaceChaos(out, stderr, flags, result)
}

func keyspaceDataDir(l *lab.Lab, h lab.Host) string { return l.DataDir("keyspace-" + h.Name) }

// countingDisks returns how many gateways have a disk that counts in the present era; 0 while the next one is prepared.
func countingDisks(ctx context.Context, l *lab.Lab) (int, error) {
	s, err := snapshotOf(ctx, l)
	if err != nil || len(s.Keyspaces) != 1 || s.Keyspaces[0].Prepared != 0 {
		return 0, err
	}
	return len(s.Keyspaces[0].Disks), nil
}

// acceptLosses accepts the loss of each shard that is lost, until all shards have all their members.
func acceptLosses(ctx context.Context, l *lab.Lab) error {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	for {
		s, err := leader.Snapshot(ctx)
		if err == nil && s.Shards.FullyReplicated == s.Shards.Total {
			return nil
		}
		if err == nil && s.Shards.Down > 0 {
			_, err = leader.AcceptLosses(ctx, s.Shards.Total)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(askAgain):
		}
	}
}

func snapshotOf(ctx context.Context, l *lab.Lab) (*admin.Snapshot, error) {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	return leader.Snapshot(ctx)
}

func printKeyspaceChaos(out, stderr io.Writer, flags *chaosFlags, r *chaos.KeyspaceResult) error {
	if flags.json {
		fmt.Fprint(stderr, r.Explain())
		if err := cli.PrintJSON(out, r); err != nil {
			return err
		}
		return verdict(&r.ServedResult)
	}
	fmt.Fprint(out, r.Explain())
	table := cli.NewTable(out)
	printServed(table, &r.ServedResult)
	fmt.Fprintf(table, "disks set aside\t%d\n", r.Damaged)
	printStruck(table, &r.ServedResult)
	if err := table.Flush(); err != nil {
		return err
	}
	return verdict(&r.ServedResult)
}
