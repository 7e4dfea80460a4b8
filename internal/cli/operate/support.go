package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/support"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/build"
)

// supportFlags are the command line of `netcraq support`.
type supportFlags struct {
	doctor  doctorFlags
	out     string
	logs    []string
	units   []string
	since   time.Duration
	metrics []string

	http    *http.Client // for pages
	secured bool         // certificates are named
}

func newSupportCommand() *cobra.Command {
	var flags supportFlags
	c := &cobra.Command{
		Use:   "support",
		Short: "Pack logs, metrics, versions and states for a report, without secrets",
		Long: `Pack logs, metrics, versions and states into one archive, for a report to who helps.

The archive has what netcraq doctor finds, logs of the systemd units netcraq-* and of files that --log names, and, of a cluster
that is named, states and metrics of its controllers, nodes and keyspaces on disks. --metrics names pages of others, such as
gateways. --cert, --key and --cacert are for an etcd, and for pages of gateways and keyspaces that ask for certificates. What
is missing is printed, and is in notes.txt.

Keys, values, private keys, passwords and tokens are removed from logs, and nothing else in the archive has them. Addresses and
names of nodes and hosts stay. Look at it before you send it: logs of other programs may have secrets that this command does
not know.`,
		Example: `  netcraq support --controllers 192.0.2.11 --metrics http://192.0.2.1:23790/proxy/metrics
  netcraq support --log /var/log/netcraq.log --out report.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runSupport(c, &flags) },
	}
	f := c.Flags()
	flags.doctor.add(f)
	f.Lookup("cert").Usage = "certificate presented to etcd, gateways and keyspaces"
	f.Lookup("cacert").Usage = "authorities that sign the certificates of etcd, gateways and keyspaces"
	f.StringVar(&flags.out, "out", "", "file to write (default: netcraq-support-TIME.tar.gz)")
	f.StringArrayVar(&flags.logs, "log", nil, "file with a log; may be repeated")
	f.StringArrayVar(&flags.units, "unit", []string{"netcraq-*"}, "systemd unit whose journal to pack; \"\": none")
	f.DurationVar(&flags.since, "since", 24*time.Hour, "how far back the journal is packed")
	f.StringArrayVar(&flags.metrics, "metrics", nil, "URL of another page of metrics; may be repeated")
	return c
}

func runSupport(c *cobra.Command, flags *supportFlags) (err error) {
	if err := flags.doctor.check(); err != nil {
		return err
	}
	if flags.since <= 0 {
		return cli.UsageError(fmt.Errorf("--since must be positive, not %v", flags.since))
	}
	if err := flags.loadCertificates(); err != nil {
		return err
	}
	now := time.Now()
	if flags.out == "" {
		flags.out = "netcraq-support-" + now.Format("20060102-150405") + ".tar.gz"
	}
	a, err := support.Create(flags.out, now)
	if err != nil {
		return err
	}
	err = errors.Join(a.AddJSON("version.json", build.Read()), flags.pack(c.Context(), a))
	if err = errors.Join(err, c.Context().Err()); err != nil {
		return errors.Join(err, a.Discard())
	}
	if err := a.Close(); err != nil {
		return err
	}
	fmt.Fprint(c.ErrOrStderr(), a.Notes())
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: look at it before you send it\n", flags.out)
	return err
}

// pack adds all parts. One that cannot be had is noted.
func (s *supportFlags) pack(ctx context.Context, a *support.Archive) error {
	findings, err := s.doctor.find(ctx)
	if err != nil {
		return err
	}
	if err := a.AddJSON("doctor.json", findings); err != nil {
		return err
	}
	pages := make(map[string]fetch)
	for _, url := range s.metrics {
		pages[url] = func(ctx context.Context) ([]byte, error) { return s.fetchPage(ctx, url) }
	}
	if s.doctor.named() {
		if err := s.packCluster(ctx, a, pages); err != nil {
			return err
		}
	}
	if err := s.packPages(ctx, a, pages); err != nil {
		return err
	}
	for i, path := range s.logs {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		err = errors.Join(a.AddLog(fmt.Sprintf("logs/%d-%s", i+1, filepath.Base(path)), file), file.Close())
		if err != nil {
			return err
		}
	}
	return s.packJournal(ctx, a)
}

// packCluster adds the states of controllers and nodes, which have no keys and values, and finds the pages of metrics.
// Each step has a time of its own: without a leader the first one takes all of it.
func (s *supportFlags) packCluster(ctx context.Context, a *support.Archive, pages map[string]fetch) error {
	cluster, err := s.doctor.cluster.Read()
	if err != nil {
		return err
	}
	dial, err := s.doctor.cluster.Dial()
	if err != nil {
		return err
	}
	if cluster.Managed() {
		snap, err := s.packStatus(ctx, a, cluster.Controllers, dial)
		if err != nil {
			return err
		}
		s.addPages(pages, cluster.Controllers, snap, dial)
	}
	return s.packNodes(ctx, a, pages, dial)
}

// packStatus adds the leader's status.
func (s *supportFlags) packStatus(
	ctx context.Context, a *support.Archive, controllers []string, dial grpc.DialOption,
) (*admin.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, s.doctor.timeout)
	defer cancel()
	leader := admin.NewLeader(controllers, dial)
	defer leader.Close()
	snap, err := leader.Snapshot(ctx)
	if err != nil {
		a.Note("status: %v", err)
		return snap, nil
	}
	return snap, a.AddJSON("status.json", snap)
}

// packNodes adds the reports of the nodes' agents, and the pages of their metrics to pages.
func (s *supportFlags) packNodes(
	ctx context.Context, a *support.Archive, pages map[string]fetch, dial grpc.DialOption,
) error {
	m, err := s.doctor.cluster.Present(ctx, s.doctor.timeout)
	if err != nil {
		a.Note("nodes: %v", err)
		return nil
	}
	for i := range m.Nodes {
		pages["node "+m.Nodes[i].Name] = func(ctx context.Context) ([]byte, error) {
			return agent.MetricsPage(ctx, m.Nodes[i].APIAddr(), dial)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.doctor.timeout)
	defer cancel()
	return a.AddJSON("nodes.json", agent.Inspect(ctx, agent.Targets(m.Nodes), nil, dial))
}

// packJournal adds the journal of units, if there is a systemd.
func (s *supportFlags) packJournal(ctx context.Context, a *support.Archive) error {
	args := []string{"-o", "short-iso", "--since", time.Now().Add(-s.since).Format(time.DateTime)}
	named := false
	for _, unit := range s.units {
		if unit != "" {
			args, named = append(args, "--unit", unit), true
		}
	}
	if !named {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalWithin)
	defer cancel()
	text, err := exec.CommandContext(ctx, "journalctl", args...).Output()
	if err != nil {
		a.Note("the journal of %s: %v: name files with --log", strings.Join(s.units, ", "), err)
		return nil
	}
	return a.AddLog("logs/journal.log", bytes.NewReader(text))
}

// journalWithin is how long the journal may take.
const journalWithin = time.Minute
