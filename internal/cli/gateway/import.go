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
	"github.com/netcraq/netcraq/internal/gateway/memory/migration"
	"github.com/netcraq/netcraq/internal/keyspace/record"
)

// importFlags are the command line of `netcraq keyspace import`.
type importFlags struct {
	keyspaceFlags
	snapshot string
	skipHash bool
	etcd     migration.Options
}

func newImportCommand() *cobra.Command {
	flags := importFlags{}
	c := &cobra.Command{
		Use:   "import",
		Short: "Begin a keyspace with the keys and leases of an etcd",
		Long: `Begin a keyspace with the keys and leases of an etcd: of one that runs, or from a file of etcdctl snapshot save.

Run it once, before the gateways, with the flags of the first one: the keyspace is on its disk when the command ends. Keys
keep their revisions and their history, and leases their IDs. To go back, use etcdctl snapshot save at a gateway and
etcdutl snapshot restore.

With --etcd-endpoints the etcd is copied while its clients use it. As soon as the copy has nearly all, the command enables
the etcd's authentication, with a user root of its own: etcd refuses its clients from then on, and the keyspace begins with
all that they were acknowledged. End the etcd, and start the gateways at its addresses. The command says how to let the
clients in again; if it fails before the keyspace begins, it does so itself.`,
		Example: `  netcraq keyspace import --etcd-endpoints http://192.0.2.4:2379 --data-dir /var/lib/netcraq/keyspace \
    --listen 192.0.2.7:2379 --controllers 192.0.2.1,192.0.2.2
  netcraq keyspace import --snapshot etcd.db --data-dir /var/lib/netcraq/keyspace --listen 192.0.2.7:2379 \
    --controllers 192.0.2.1,192.0.2.2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if flags.snapshot != "" {
				return flags.fromFile(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
			}
			return flags.fromEtcd(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&flags.snapshot, "snapshot", "", "file of etcdctl snapshot save; this or --etcd-endpoints is needed")
	f.BoolVar(&flags.skipHash, "skip-hash-check", false,
		"take a file without the hash that etcdctl snapshot save appends, such as member/snap/db of an etcd that has ended")
	f.StringSliceVar(&flags.etcd.Endpoints, "etcd-endpoints", nil, "members of a running etcd: host:port, http:// or https://")
	f.StringVar(&flags.etcd.CA, "etcd-cacert", "", "authorities that sign the certificates of the etcd")
	f.StringVar(&flags.etcd.Cert, "etcd-cert", "", "certificate presented to the etcd")
	f.StringVar(&flags.etcd.Key, "etcd-key", "", "key of --etcd-cert")
	f.DurationVar(&flags.etcd.Timeout, "etcd-timeout", migration.AnswerTimeout,
		"time to wait for the etcd's answers in each step")
	flags.add(f)
	return c
}

// check refuses flags that do not belong together.
func (i *importFlags) check() error {
	switch {
	case (i.snapshot == "") == (len(i.etcd.Endpoints) == 0):
		return cli.UsageError(errors.New("name either a file of etcdctl snapshot save with --snapshot, " +
			"or a running etcd with --etcd-endpoints"))
	case i.durability != onDisk:
		return cli.UsageError(errors.New("--durability: only keyspaces on disks begin with the contents of an etcd"))
	}
	return i.keyspaceFlags.check()
}

func (i *importFlags) fromFile(ctx context.Context, out, log io.Writer) error {
	s, err := keyspace.ReadFile(i.snapshot, i.skipHash)
	if err != nil {
		return fmt.Errorf("--snapshot %s: %w", i.snapshot, err)
	}
	return i.begin(ctx, out, log, func() (*keyspace.Snapshot, error) { return s, nil })
}

// fromEtcd begins with the contents of a running etcd, which it closes for its clients.
func (i *importFlags) fromEtcd(ctx context.Context, out, log io.Writer) error {
	i.etcd.Dir, i.etcd.Log = i.dir, cli.NewLog(log, i.gateway.verbose, i.gateway.logFormat)
	etcd, err := migration.Open(ctx, i.etcd)
	if errors.Is(err, migration.ErrCertificate) {
		err = cli.UsageError(err)
	}
	if err != nil {
		return fmt.Errorf("--etcd-endpoints: %w", err)
	}
	defer etcd.Close() //nolint:errcheck // its calls have ended
	err = i.begin(ctx, out, log, func() (*keyspace.Snapshot, error) { return etcd.Copy(ctx) })
	switch {
	case !etcd.Closed():
		return err
	case err != nil:
		return fmt.Errorf("%w; the etcd refuses its clients. If netcraq status shows that the keyspace has not begun, let "+
			"them in again: %s", err, etcd.Reopening())
	}
	fmt.Fprintf(out, "the etcd refuses its clients: end it, and start the gateways at its addresses. "+
		"To give up the keyspace instead: %s\n", etcd.Reopening())
	return nil
}

// begin begins a keyspace with a snapshot, which contents returns as soon as nothing else is in the way.
func (i *importFlags) begin(ctx context.Context, out, log io.Writer, contents func() (*keyspace.Snapshot, error)) error {
	var s *keyspace.Snapshot
	write := func(w io.Writer) (err error) {
		if s, err = contents(); err != nil {
			return err
		}
		return s.Write(w)
	}
	return i.open(ctx, log, write, func(ctx context.Context, g *memory.Server, _ *connect.Client, _ *slog.Logger) error {
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
			return fmt.Errorf("another gateway was faster: the keyspace is at revision %d, and the etcd at %d", revision, s.Revision())
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
