package operate

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
)

// timeFlag is the flag of one of a cluster's times.
type timeFlag struct {
	name, use string
	shown     func(*admin.Times) float64
	asked     func(*controllerv1.Times) *uint64
}

var timeFlags = []timeFlag{
	{"beat", "time between two heartbeats of a node",
		func(t *admin.Times) float64 { return t.Heartbeat }, func(t *controllerv1.Times) *uint64 { return &t.BeatUs }},
	{"suspect", "heartbeat timeout after which a node is suspected",
		func(t *admin.Times) float64 { return t.Suspect }, func(t *controllerv1.Times) *uint64 { return &t.SuspectUs }},
	{"suspect-max", "maximum to which --suspect grows on machines whose processes pause",
		func(t *admin.Times) float64 { return t.SuspectMax }, func(t *controllerv1.Times) *uint64 { return &t.SuspectMaxUs }},
	{"lease", "read lease: time for which a node may answer reads after a heartbeat",
		func(t *admin.Times) float64 { return t.Lease }, func(t *controllerv1.Times) *uint64 { return &t.LeaseUs }},
	{"lease-max", "maximum to which --lease grows on machines whose processes pause",
		func(t *admin.Times) float64 { return t.LeaseMax }, func(t *controllerv1.Times) *uint64 { return &t.LeaseMaxUs }},
	{"sure", "heartbeat timeout after which a node is removed from a chain of two",
		func(t *admin.Times) float64 { return t.Sure }, func(t *controllerv1.Times) *uint64 { return &t.SureUs }},
}

func newSettingsCommand() *cobra.Command {
	var flags leaderFlags
	given := make([]time.Duration, len(timeFlags))
	c := &cobra.Command{
		Use:   "settings",
		Short: "Show a cluster's settings, or change its times while it runs",
		Long: `Show a cluster's settings, or change its times while it runs.

A change is durable when the command returns. Leases that were granted before keep their length, so reads stay
linearizable. A controller that restarts waits once for the longest lease that was ever set. The number of shards, the
maximum length of a value and --tags are fixed when a cluster is formed.`,
		Example: "  netcraq settings\n  netcraq settings --suspect 400ms --lease 600ms",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runSettings(c, &flags, given) },
	}
	flags.add(c)
	for i, f := range timeFlags {
		c.Flags().DurationVar(&given[i], f.name, 0, f.use+" (default: unchanged)")
	}
	return c
}

func runSettings(c *cobra.Command, flags *leaderFlags, given []time.Duration) error {
	times, any := new(controllerv1.Times), false
	for i, f := range timeFlags {
		if !c.Flags().Changed(f.name) {
			continue
		}
		if given[i] < time.Microsecond {
			return cli.UsageError(fmt.Errorf("--%s must be positive, not %v", f.name, given[i]))
		}
		*f.asked(times), any = uint64(given[i].Microseconds()), true
	}
	leader, err := flags.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ctx, cancel := context.WithTimeout(c.Context(), flags.timeout)
	defer cancel()
	if any {
		request := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Times{Times: times}}
		if _, err := leader.Operate(ctx, request); err != nil {
			return err
		}
	}
	snapshot, err := leader.Snapshot(ctx)
	if err != nil {
		return err
	}
	if flags.json {
		return cli.PrintJSON(c.OutOrStdout(), settingsOf(snapshot))
	}
	return printSettings(c.OutOrStdout(), snapshot)
}

// settingsObject is the output of `netcraq settings --json`.
type settingsObject struct {
	Cluster   string      `json:"cluster"`
	Shards    uint32      `json:"shards"`
	Replicas  uint32      `json:"replicas"`
	Spread    string      `json:"spread"`
	CellBytes uint32      `json:"cell_bytes"`
	Tags      bool        `json:"tags"`
	Times     admin.Times `json:"times"`
}

func settingsOf(s *admin.Snapshot) settingsObject {
	return settingsObject{s.Cluster, s.Shards.Total, s.Replicas, s.Spread, s.CellBytes, s.Tags, s.Times}
}

func printSettings(w io.Writer, s *admin.Snapshot) error {
	table := cli.NewTable(w)
	fmt.Fprintln(table, "SETTING\tVALUE\tCHANGED WITH")
	for _, f := range timeFlags {
		value := time.Duration(f.shown(&s.Times) * float64(time.Millisecond))
		fmt.Fprintf(table, "%s\t%v\tnetcraq settings --%s\n", f.name, value, f.name)
	}
	fmt.Fprintf(table, "replicas\t%d\tnetcraq replicas\n", s.Replicas)
	const formed = "fixed when the cluster is formed"
	fmt.Fprintf(table, "shards\t%d\t%s\n", s.Shards.Total, formed)
	fmt.Fprintf(table, "cell-bytes\t%d\t%s\n", s.CellBytes, formed)
	fmt.Fprintf(table, "spread\t%s\t%s\n", s.Spread, formed)
	fmt.Fprintf(table, "tags\t%v\t%s\n", s.Tags, formed)
	return table.Flush()
}
