package operate

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/snapshot"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// snapshotFlags are the common flags of backup and restore.
type snapshotFlags struct {
	cluster cli.ClusterFlags
	timeout time.Duration
	json    bool
}

func (f *snapshotFlags) add(cmd *cobra.Command) {
	f.cluster.Add(cmd.Flags())
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "give up if an operation on one key takes longer")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
}

// connect returns a client for the cluster.
func (f *snapshotFlags) connect(ctx context.Context) (*connect.Client, error) {
	if f.timeout <= 0 {
		return nil, cli.UsageError(fmt.Errorf("--timeout must be positive, not %v", f.timeout))
	}
	return f.cluster.Connect(ctx, client.Options{Timeout: f.timeout})
}

// agents returns the function that dials nodes' agents.
func (f *snapshotFlags) agents() (snapshot.Agents, error) {
	dial, err := f.cluster.Dial()
	return func(api string) (agentv1.AgentClient, func() error, error) {
		c, conn, err := agent.Dial(api, dial)
		if err != nil {
			return nil, nil, err
		}
		return c, conn.Close, nil
	}, err
}

// raise returns the function that raises the floor of all versions; nil: the cluster has no controllers.
func (f *snapshotFlags) raise() (func(context.Context, uint64) error, error) {
	cluster, err := f.cluster.Read()
	if err != nil || !cluster.Managed() {
		return nil, err
	}
	dial, err := f.cluster.Dial()
	return func(ctx context.Context, floor uint64) error {
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		leader := admin.NewLeader(cluster.Controllers, dial)
		defer leader.Close()
		return leader.RaiseFloor(ctx, floor)
	}, err
}

func newBackupCommand() *cobra.Command {
	var flags snapshotFlags
	var rate uint32
	var replace bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all objects of a running cluster to a file",
		Long: `Write all objects of a running cluster to a file. The file appears when it is complete.

For every key the file has a value that was current at some time during the backup. The backup is consistent for each
key, but not across keys. Nodes store 128-bit hashes of keys, so the file has no key names. Versions are in the file for
information only. Sessions and deleted keys are not in it.

If a node fails, the backup repeats that node's shards from another member of their chains. It also adapts to chains that
change while it runs.`,
		Example: "  netcraq backup cluster.nqs\n  netcraq backup cluster.nqs --replace --max-kib-s 10000 --json",
		Args:    cli.Arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBackup(cmd, &flags, snapshot.BackupOptions{MaxKiBs: rate, Replace: replace}, args[0])
		},
	}
	flags.add(cmd)
	cmd.Flags().Uint32Var(&rate, "max-kib-s", 0,
		"maximum rate at which a node is read, in KiB/s (default: no limit)")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace an existing file")
	return cmd
}

// backupObject is the output of `netcraq backup --json`.
type backupObject struct {
	File    string  `json:"file"`
	Seconds float64 `json:"seconds"`
	*snapshot.BackupReport
}

func runBackup(cmd *cobra.Command, flags *snapshotFlags, o snapshot.BackupOptions, path string) error {
	if err := snapshot.CheckTarget(path, o.Replace); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	c, err := flags.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	agents, err := flags.agents()
	if err != nil {
		return err
	}
	show := cli.NewProgress(cmd.ErrOrStderr())
	o.Client, o.Agents, o.Progress = c.Client, agents, show.Show
	began := time.Now()
	report, err := snapshot.Backup(cmd.Context(), path, o)
	show.End()
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	took := time.Since(began)
	if flags.json {
		return cli.PrintJSON(cmd.OutOrStdout(), backupObject{path, took.Seconds(), report})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s objects of %d shards, %s, in %v\n", path,
		cli.Grouped(report.Objects), report.Shards,
		humanize.IBytes(uint64(report.FileBytes)), took.Round(time.Millisecond))
	return err
}

func newRestoreCommand() *cobra.Command {
	var flags snapshotFlags
	var dry, anew bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Write the objects of a backup to the cluster",
		Long: `Write the objects of a backup to the cluster, which may have other nodes and another number of shards.

The command first verifies the whole file and checks that the nodes have room. If a check fails, nothing changes. Then it
writes the value of each key with an ordinary write. Clients can use the cluster meanwhile, and keys that are not in the
backup stay. An interrupted restore can be repeated.

Only values are restored. In the cluster of the backup, versions continue. In another cluster that has controllers, all
versions from now on are above those of the backup and those that were given after it, so fencing tokens of locks never go
back (rule G7). A cluster without controllers cannot do that.`,
		Example: "  netcraq restore cluster.nqs --dry-run\n  netcraq restore cluster.nqs --controllers 192.0.2.1:4413",
		Args:    cli.Arguments(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runRestore(cmd, &flags, dry, anew, args[0]) },
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&anew, "versions-anew", false,
		"leave versions as they are, though they, and fencing tokens, may be lower than before: for chains with P4 nodes")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "verify the file and the room for it, and change nothing")
	return cmd
}

// restoreObject is the output of `netcraq restore --json`.
type restoreObject struct {
	File    string  `json:"file"`
	Seconds float64 `json:"seconds"`
	*snapshot.RestoreReport
}

func runRestore(cmd *cobra.Command, flags *snapshotFlags, dry, anew bool, path string) error {
	if err := snapshot.CheckSource(path); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	c, err := flags.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	agents, err := flags.agents()
	if err != nil {
		return err
	}
	raise, err := flags.raise()
	if err != nil {
		return err
	}
	if anew {
		raise = nil
	}
	show := cli.NewProgress(cmd.ErrOrStderr())
	report, err := snapshot.Restore(cmd.Context(), path, snapshot.RestoreOptions{
		Client: c.Client, Agents: agents, DryRun: dry, Raise: raise, Progress: show.Show,
	})
	show.End()
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if flags.json {
		return cli.PrintJSON(cmd.OutOrStdout(), restoreObject{path, report.Took.Seconds(), report})
	}
	text := fmt.Sprintf("%s: %s objects restored in %v\n", path, cli.Grouped(report.Restored),
		report.Took.Round(time.Millisecond))
	if dry {
		text = fmt.Sprintf(
			"%s is complete, from %s: %s objects, the longest value has %d bytes; the cluster has room; nothing was changed\n", path,
			report.Begun.Format(time.RFC3339), cli.Grouped(report.Objects), report.LongestValue)
	}
	switch {
	case report.Anew:
		text += "versions, and fencing tokens, may be lower than before: no controllers keep them above the backup's\n"
	case report.Floor > 0:
		text += fmt.Sprintf("versions, and fencing tokens, go on above %d: this is not the cluster of the backup\n", report.Floor)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}
