package operate

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
)

// memberEvery is how often --wait looks at the members.
const memberEvery = 200 * time.Millisecond

// member is a controller as this command shows it.
type member struct {
	Name  string `json:"name"`
	Peer  string `json:"peer"`  // address for the other controllers' etcd
	State string `json:"state"` // member, learner, or not started
}

func newControllersCommand() *cobra.Command {
	var flags leaderFlags
	var wait bool
	c := &cobra.Command{
		Use:   "controllers",
		Short: "Show the controllers of a cluster, or replace one that lost its disk",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runControllers(c, &flags, "", wait) },
	}
	flags.add(c)
	addWait(c, &wait)
	c.AddCommand(newReplaceControllerCommand())
	return c
}

func newReplaceControllerCommand() *cobra.Command {
	var flags leaderFlags
	var wait bool
	c := &cobra.Command{
		Use:   "replace NAME",
		Short: "Make the place of a controller free that lost its disk",
		Long: `Make the place of a controller free that lost its disk.

The controller is removed from the controllers' etcd, and a learner is added at its address. Then start it there again,
with an empty directory and --replacement. It copies the state while the others serve, and votes as soon as it has
everything. A majority of all controllers has to run meanwhile. Read leases and writes go on.`,
		Example: `  netcraq controllers replace c2
  netcraq controller --name c2 --data-dir c2 --initial-cluster c1=192.0.2.1,c2=192.0.2.2,c3=192.0.2.3 --replacement`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runControllers(c, &flags, args[0], wait) },
	}
	flags.add(c)
	addWait(c, &wait)
	return c
}

func addWait(c *cobra.Command, wait *bool) {
	c.Flags().BoolVar(wait, "wait", false, "return only when all controllers vote")
}

// memberLister asks for the members.
type memberLister func(context.Context) ([]*controllerv1.EtcdMember, error)

// runControllers replaces a controller, if one is named, waits if asked to, and shows all.
func runControllers(c *cobra.Command, flags *leaderFlags, replace string, wait bool) error {
	leader, err := flags.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	list := func(ctx context.Context) ([]*controllerv1.EtcdMember, error) {
		ctx, cancel := context.WithTimeout(ctx, flags.timeout)
		defer cancel()
		return leader.Controllers(ctx, "")
	}
	ctx, cancel := context.WithTimeout(c.Context(), flags.timeout)
	defer cancel()
	if _, err := leader.Controllers(ctx, replace); err != nil {
		return err
	}
	if wait {
		if err := awaitMembers(c.Context(), list); err != nil {
			return err
		}
	}
	members, err := list(c.Context())
	if err != nil {
		return err
	}
	return printMembers(c.OutOrStdout(), members, flags.json)
}

// awaitMembers waits until all members vote.
func awaitMembers(ctx context.Context, list memberLister) error {
	for {
		members, err := list(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(members, func(m *controllerv1.EtcdMember) bool { return m.GetLearner() || !m.GetStarted() }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the place is free, but the new controller does not vote yet: %w", ctx.Err())
		case <-time.After(memberEvery):
		}
	}
}

func printMembers(out io.Writer, members []*controllerv1.EtcdMember, json bool) error {
	shown := make([]member, len(members))
	for i, m := range members {
		shown[i] = member{Name: m.GetName(), Peer: m.GetPeer(), State: "member"}
		switch {
		case !m.GetStarted():
			shown[i].State = "not started"
		case m.GetLearner():
			shown[i].State = "learner"
		}
	}
	if json {
		return cli.PrintJSON(out, struct {
			Controllers []member `json:"controllers"`
		}{shown})
	}
	table := cli.NewTable(out)
	fmt.Fprintln(table, "NAME\tPEER\tSTATE")
	for _, m := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.Name, m.Peer, m.State)
	}
	return table.Flush()
}
