package operate

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/wire"
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
	var flags settingsFlags
	flags.times = make([]time.Duration, len(timeFlags))
	c := &cobra.Command{
		Use:   "settings",
		Short: "Show a cluster's settings, or change its times or tags while it runs",
		Long: `Show a cluster's settings, or change its times or tags while it runs.

A change is durable when the command returns. Leases that were granted before keep their length, so reads stay
linearizable. A controller that restarts waits once for the longest lease that was ever set. The number of shards and the
maximum length of a value are fixed when a cluster is formed.

With --tags, all messages of the data plane carry a tag, and nodes drop messages without one. --tags=false ends that. The
cluster changes in three steps: nodes accept tags, then send them, then require them. Each step begins when all nodes have
completed the one before, so no request is lost. --wait waits for the last step. Tags need certificates (netcraq certs);
P4 nodes do not support them.`,
		Example: "  netcraq settings\n  netcraq settings --suspect 400ms --lease 600ms\n  netcraq settings --tags --wait",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runSettings(c, &flags) },
	}
	flags.add(c)
	for i, f := range timeFlags {
		c.Flags().DurationVar(&flags.times[i], f.name, 0, f.use+" (default: unchanged)")
	}
	c.Flags().BoolVar(&flags.tags, "tags", false, "authenticate messages of the data plane with tags (default: unchanged)")
	c.Flags().BoolVar(&flags.wait, "wait", false, "return only when all nodes have completed a change of --tags")
	return c
}

// settingsFlags are the command line of `netcraq settings`.
type settingsFlags struct {
	leaderFlags
	times      []time.Duration
	tags, wait bool
}

// requests are the changes that are asked for.
func (flags *settingsFlags) requests(c *cobra.Command) (asked []*controllerv1.OperateRequest, err error) {
	times, any := new(controllerv1.Times), false
	for i, f := range timeFlags {
		if !c.Flags().Changed(f.name) {
			continue
		}
		if flags.times[i] < time.Microsecond {
			return nil, cli.UsageError(fmt.Errorf("--%s must be positive, not %v", f.name, flags.times[i]))
		}
		*f.asked(times), any = uint64(flags.times[i].Microseconds()), true
	}
	if any {
		asked = append(asked, &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Times{Times: times}})
	}
	if c.Flags().Changed("tags") {
		asked = append(asked, &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Tags{Tags: flags.tags}})
	}
	return asked, nil
}

func runSettings(c *cobra.Command, flags *settingsFlags) error {
	asked, err := flags.requests(c)
	if err != nil {
		return err
	}
	leader, err := flags.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ctx, cancel := context.WithTimeout(c.Context(), flags.timeout)
	defer cancel()
	for _, request := range asked {
		if _, err := leader.Operate(ctx, request); err != nil {
			return err
		}
	}
	snapshot, err := leader.Snapshot(ctx)
	for err == nil && flags.wait && !settled(snapshot) {
		select {
		case <-c.Context().Done():
			return fmt.Errorf("the change is made and goes on, but the tags are still %s", tagsOf(snapshot))
		case <-time.After(settledEvery):
		}
		snapshot, err = flags.snapshot(c.Context(), leader)
	}
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
	Tags      bool        `json:"tags"`       // the aim
	TagPhase  string      `json:"tag_phase"`  // how far the cluster is
	TagsAwait []string    `json:"tags_await"` // nodes that it waits for, and why
	Times     admin.Times `json:"times"`
}

func settingsOf(s *admin.Snapshot) settingsObject {
	return settingsObject{
		Cluster: s.Cluster, Shards: s.Shards.Total, Replicas: s.Replicas, Spread: s.Spread, CellBytes: s.CellBytes,
		Tags: s.Tags, TagPhase: s.TagPhase, TagsAwait: append([]string{}, s.TagsAwait...), Times: s.Times,
	}
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
	fmt.Fprintf(table, "tags\t%s\tnetcraq settings --tags\n", tagsOf(s))
	return table.Flush()
}

// settledEvery is the time between two looks at the tags.
const settledEvery = 100 * time.Millisecond

func (flags *settingsFlags) snapshot(ctx context.Context, leader *admin.Leader) (*admin.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	return leader.Snapshot(ctx)
}

// settled reports whether the tags are as they should be.
func settled(s *admin.Snapshot) bool {
	if len(s.TagsAwait) > 0 {
		return false
	}
	if s.Tags {
		return s.TagPhase == wire.TagsRequired.String()
	}
	return s.TagPhase == wire.TagsOff.String()
}

// tagsOf describes the tags.
func tagsOf(s *admin.Snapshot) string {
	aim := "off"
	if s.Tags {
		aim = "on"
	}
	if settled(s) {
		return aim
	}
	text := s.TagPhase + ", on the way to " + aim
	if len(s.TagsAwait) > 0 {
		text += ": waiting for " + strings.Join(s.TagsAwait, ", ")
	}
	return text
}
