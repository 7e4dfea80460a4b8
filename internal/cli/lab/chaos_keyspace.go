package lab

import (
	"context"
	"fmt"
	"io"
	"strings"

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
	served, product, show, err := flags.begin(stderr, name)
	if err != nil {
		return err
	}
	trial := chaos.KeyspaceOptions{
		ServedOptions: served, Dir: keyspaceDataDir, Disks: countingDisks, AcceptLosses: acceptLosses,
		Gateway: func(l *lab.Lab, h lab.Host, dir string) []string {
			args := []string{
				product, "keyspace", "--data-dir", dir, "--listen", gatewayAddress(h), "--member", h.Name,
				"--controllers", strings.Join(l.Controllers(), ","),
			}
			if flags.upgradeFrom == "" { // an earlier version may not know the flag
				args = append(args, "--pins", gatewayPins(l, h))
			}
			return args
		},
	}
	trial.Address, trial.HistoryAddress = gatewayAddress, gatewayAddress
	result, err := chaos.Keyspaces(ctx, trial)
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return flags.report(out, stderr, result, &result.ServedResult, func(table io.Writer) {
		fmt.Fprintf(table, "disks set aside\t%d\n", result.Damaged)
	})
}

func keyspaceDataDir(l *lab.Lab, h lab.Host) string { return l.DataDir("keyspace-" + h.Name) }

// countingDisks returns how many gateways have a disk that counts in the present era; 0 while the next one is prepared.
func countingDisks(ctx context.Context, l *lab.Lab) (int, error) {
	s, err := snapshotOf(ctx, l)
	if err != nil || len(s.Keyspaces) != 1 {
		return 0, err
	}
	return s.Keyspaces[0].CountingDisks(), nil
}

// acceptLosses accepts the loss of each shard that is lost. whole says that all shards have all their members.
func acceptLosses(ctx context.Context, l *lab.Lab) (whole bool, err error) {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	s, err := leader.Snapshot(ctx)
	if err == nil && s.Shards.Down > 0 {
		_, err = leader.AcceptLosses(ctx, s.Shards.Total)
	}
	return err == nil && s.Shards.FullyReplicated == s.Shards.Total, err
}
