package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/doctor"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/gateway/proxy"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/finding"
	"github.com/netcraq/netcraq/wire"
)

// doctorFlags are the command line of `netcraq doctor`.
type doctorFlags struct {
	cluster   cli.ClusterFlags
	etcd      proxy.Options
	ports     []string
	plane     string
	cellBytes int
	timeout   time.Duration
	json      bool
}

// doctorResult is the output of `netcraq doctor --json`.
type doctorResult struct {
	Findings []finding.Finding `json:"findings"`
	Broken   int               `json:"broken"`
	Warnings int               `json:"warnings"`
}

func newDoctorCommand() *cobra.Command {
	var flags doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find what this host, a cluster and an etcd lack, and what to do about it",
		Long: `Find what this host, a cluster and an etcd lack, and what to do about it.

The host is examined as a start of netcraq node does, without an effect: kernel, BTF, BPF file system, rights, clocks, the
programs, and each port with its MTU, offloads and native XDP. With --cluster, --controllers or their variables the cluster
is: controllers, agents and data planes by their TCP and UDP ports from here, those of other nodes and of controllers from
each node, short chains, placement by zone. With --etcd-endpoints the members of an etcd are, and with --identity, --cert and
--cacert certificates that end soon.

What is broken makes the exit status 8, warnings do not. A lack of XDP is a warning, because nodes on sockets work too, and
with --plane xdp it is broken.`,
		Example: `  netcraq doctor
  netcraq doctor --plane xdp --port-if eth0
  netcraq doctor --controllers 192.0.2.11 --etcd-endpoints http://192.0.2.1:2379 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(c.Context(), c.OutOrStdout(), &flags) },
	}
	flags.add(c.Flags())
	c.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

// add adds the flags that name what is examined.
func (d *doctorFlags) add(f *pflag.FlagSet) {
	d.plane, d.cellBytes, d.timeout = cli.PlaneAuto, wire.MaxValueBytes, examineWithin
	d.cluster.Add(f)
	f.StringVar(&d.plane, "plane", d.plane, "data plane that this host is to run: auto, soft or xdp")
	f.StringArrayVar(&d.ports, "port-if", nil, "network interface to answer on; may be repeated (default: as netcraq node)")
	f.IntVar(&d.cellBytes, "cell-bytes", d.cellBytes, "maximum length of a value in bytes, for the MTU")
	f.StringSliceVar(&d.etcd.Endpoints, "etcd-endpoints", nil, "etcd's members: host:port, http://, https:// or unix://")
	f.StringVar(&d.etcd.Etcd.Cert, "cert", "", "certificate presented to etcd")
	f.StringVar(&d.etcd.Etcd.Key, "key", "", "key of --cert")
	f.StringVar(&d.etcd.Etcd.CA, "cacert", "", "authorities that sign etcd's certificates")
	f.DurationVar(&d.timeout, "timeout", d.timeout, "time to wait for each answer")
}

// examineWithin is how long each answer may take by default.
const examineWithin = 5 * time.Second

// check checks the d.
func (d *doctorFlags) check() error {
	if d.plane != cli.PlaneAuto && d.plane != cli.PlaneSoft && d.plane != cli.PlaneXDP {
		return cli.UsageError(fmt.Errorf("--plane %q: want %s, %s or %s", d.plane, cli.PlaneAuto, cli.PlaneSoft, cli.PlaneXDP))
	}
	if d.cellBytes < 1 || d.cellBytes > wire.MaxValueBytes || d.timeout <= 0 {
		return cli.UsageError(fmt.Errorf("--cell-bytes is 1 to %d, and --timeout is positive", wire.MaxValueBytes))
	}
	return nil
}

// find examines everything that the flags name.
func (d *doctorFlags) find(ctx context.Context) (*doctorResult, error) {
	r := &doctorResult{Findings: d.host()}
	of, err := d.ofCluster(ctx)
	if err != nil {
		return nil, err
	}
	r.Findings = append(r.Findings, of...)
	if len(d.etcd.Endpoints) > 0 {
		r.Findings = append(r.Findings, d.etcd.Examine(ctx)...)
	}
	if err := ctx.Err(); err != nil { // what did not answer may be well
		return nil, err
	}
	r.Broken, r.Warnings = finding.Count(r.Findings, finding.Broken), finding.Count(r.Findings, finding.Warning)
	return r, nil
}

func runDoctor(ctx context.Context, out io.Writer, flags *doctorFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	r, err := flags.find(ctx)
	if err != nil {
		return err
	}
	if flags.json {
		err = cli.PrintJSON(out, r)
	} else {
		err = printFindings(out, r)
	}
	if err == nil && r.Broken > 0 {
		err = cli.ExitWith(cli.ExitBroken, fmt.Errorf("%d of %d checks found something broken", r.Broken, len(r.Findings)))
	}
	return err
}

// host examines this host.
func (d *doctorFlags) host() (list []finding.Finding) {
	list = []finding.Finding{
		{Check: "version", State: finding.OK, Text: cli.VersionLine()}, doctor.WallClock(),
	}
	bad := finding.Warning
	if d.plane == cli.PlaneXDP {
		bad = finding.Broken
	}
	if d.plane != cli.PlaneSoft {
		list = append(list, xdp.Examine(d.ports, chain.Options{Shards: 1, CellBytes: d.cellBytes}, bad)...)
	}
	var files []string
	if dir := d.identity(); dir != "" {
		cert, _, authority := security.Files(dir)
		files = append(files, cert, authority)
	}
	for _, file := range []string{d.etcd.Etcd.Cert, d.etcd.Etcd.CA} {
		if file != "" {
			files = append(files, file)
		}
	}
	return append(list, doctor.Certificates(time.Now(), files...)...)
}

func (d *doctorFlags) identity() string { return d.cluster.Identity() }

// named reports whether the user names a cluster. One that commands would find by themselves does not count.
func (d *doctorFlags) named() bool {
	return d.cluster.File != "" || len(d.cluster.Controllers) > 0 || os.Getenv(connect.ClusterVariable) != "" ||
		os.Getenv(connect.ControllersVariable) != ""
}

// ofCluster examines the cluster.
func (d *doctorFlags) ofCluster(ctx context.Context) (list []finding.Finding, err error) {
	if !d.named() {
		return nil, nil
	}
	cluster, err := d.cluster.Read()
	if err != nil {
		return nil, err
	}
	dial, err := d.cluster.Dial()
	if err != nil {
		return nil, err
	}
	within := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d.timeout) }
	if cluster.Managed() {
		asking, cancel := within()
		list = append(list, doctor.Leader(asking, cluster.Controllers, dial)...)
		cancel()
	}
	opening, cancel := within()
	defer cancel()
	c, err := d.cluster.Connect(opening, client.Options{})
	if err != nil {
		if errors.As(err, new(*cli.StatusError)) {
			return nil, err
		}
		return append(list, finding.Finding{Check: "map", State: finding.Broken, Text: err.Error(),
			Remedy: "start the controllers, or name others"}), nil
	}
	defer c.Close()
	asking, stop := within()
	defer stop()
	list = append(list, doctor.Agents(asking, c.Map().Nodes, dial)...)
	return append(list, doctor.DataPlanes(ctx, c.Client, d.timeout)...), nil
}

func printFindings(out io.Writer, r *doctorResult) error {
	table := cli.NewTable(out)
	fmt.Fprintln(table, "STATE\tCHECK\tOF\tFINDING")
	for i := range r.Findings {
		f := &r.Findings[i]
		about := f.About
		if about == "" {
			about = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.State, f.Check, about, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(table, "\t\t\t  remedy: %s\n", f.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d checks: %d broken, %d warnings\n", len(r.Findings), r.Broken, r.Warnings)
	return err
}
