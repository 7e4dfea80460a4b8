package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/memory"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/keyspace/record"
)

// importFlags are the command line of `netcraq keyspace import`.
type importFlags struct {
	keyspaceFlags
	snapshot string
	skipHash bool
}

func newImportCommand() *cobra.Command {
	flags := importFlags{}
	c := &cobra.Command{
		Use:   "import",
		Short: "Begin a keyspace with the keys and leases of an etcd",
		Long: `Begin a keyspace with the keys and leases of an etcd, from a file of etcdctl snapshot save.

Run it once, before the gateways, with the flags of the first one: the keyspace is on its disk when the command ends. Keys
keep their revisions and their history, and leases their IDs. To go back, use etcdctl snapshot save at a gateway and
etcdutl snapshot restore.`,
		Example: `  netcraq keyspace import --snapshot etcd.db --data-dir /var/lib/netcraq/keyspace --listen 192.0.2.7:2379 \
    --controllers 192.0.2.1,192.0.2.2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if flags.snapshot == "" {
				return cli.UsageError(errors.New("--snapshot: name a file of etcdctl snapshot save"))
			}
			if flags.durability != onDisk {
				return cli.UsageError(errors.New("--durability: only keyspaces on disks begin with a snapshot"))
			}
			if err := flags.check(); err != nil {
				return err
			}
			return flags.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&flags.snapshot, "snapshot", "", "file of etcdctl snapshot save; needed")
	f.BoolVar(&flags.skipHash, "skip-hash-check", false,
		"take a file without the hash that etcdctl snapshot save appends, such as member/snap/db of an etcd that has ended")
	flags.add(f)
	return c
}

func (i *importFlags) run(ctx context.Context, out, log io.Writer) error {
	s, err := keyspace.ReadFile(i.snapshot, i.skipHash)
	if err != nil {
		return fmt.Errorf("--snapshot %s: %w", i.snapshot, err)
	}
	return i.open(ctx, log, s.Write, func(ctx context.Context, g *memory.Server, _ *connect.Client, _ *slog.Logger) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			defer cancel()
			ended <- g.Run(ctx)
		}()
		revision, keys, err := g.Began(ctx)
		cancel()
		if failed := <-ended; failed != nil || err != nil {
			return errors.Join(failed, err)
		}
		if revision != s.Revision() {
			return fmt.Errorf("another gateway was faster: the keyspace is at revision %d, and the file at %d", revision, s.Revision())
		}
		fmt.Fprintf(out, "the keyspace %s begins at revision %d with %d keys and %d leases: start its gateways, this one first\n",
			i.gateway.memory.name, revision, keys, s.Leases())
		return nil
	})
}

// isNew refuses a keyspace that has begun.
func isNew(ctx context.Context, r *record.Record, name string) error {
	s, _, err := r.Read(ctx)
	if err == nil && s.Newest() > 0 {
		err = fmt.Errorf("the keyspace %s exists already, and nothing was changed: start its gateways without import, or choose another --name",
			name)
	}
	return err
}
