package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// memberEvery is how often --wait looks at the members.
const memberEvery = 200 * time.Millisecond

// member is a controller as this command shows it.
type member struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Peer    string `json:"peer,omitempty"` // address for the other controllers' etcd
	State   string `json:"state"`          // member, learner, not started, joining, or leaving
}

func newControllersCommand() *cobra.Command {
	c := newMembersCommand(&cobra.Command{
		Use:   "controllers",
		Short: "Show the controllers of a cluster, add or remove one, or replace one that lost its disk",
		Args:  cobra.NoArgs,
	}, func([]string) (*controllerv1.ControllersRequest, error) {
		return &controllerv1.ControllersRequest{}, nil
	})
	c.AddCommand(newAddControllerCommand(), newRemoveControllerCommand(), newReplaceControllerCommand())
	return c
}

func newAddControllerCommand() *cobra.Command {
	return newMembersCommand(&cobra.Command{
		Use:   "add NAME=ADDRESS",
		Short: "Add a controller to a running cluster",
		Long: `Add a controller to a running cluster.

A learner is added to the controllers' etcd. Then start the controller, with an empty directory, --replacement and
all controllers in --initial-cluster (with --etcd-endpoints it needs neither). It copies the state while the others
serve. It counts as soon as it follows the state and all nodes are connected to it. One controller joins at a time.`,
		Example: `  netcraq controllers add c4=192.0.2.4
  netcraq controller --name c4 --data-dir c4 --initial-cluster c1=192.0.2.1,c2=192.0.2.2,c3=192.0.2.3,c4=192.0.2.4 --replacement
  netcraq controllers --wait`,
		Args: cli.Arguments(1),
	}, func(args []string) (*controllerv1.ControllersRequest, error) {
		name, address, ok := strings.Cut(args[0], "=")
		if !ok || name == "" {
			return nil, cli.UsageError(fmt.Errorf("%q: give a controller as NAME=ADDRESS, such as c4=192.0.2.4", args[0]))
		}
		address, err := topology.ControllerAddr(address)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		one, err := cli.NewController(name, address)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		return &controllerv1.ControllersRequest{
			Add: &controllerv1.ControllerSpec{Name: one.Name, Address: one.Address, Peer: one.Peer},
		}, nil
	})
}

func newRemoveControllerCommand() *cobra.Command {
	return newMembersCommand(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a controller from a running cluster, alive or dead",
		Long: `Remove a controller from a running cluster, alive or dead.

Its grants count no more from then on, its etcd is removed, and its process ends. If it leads, another controller leads
then. The others have to be enough for a majority of the rest.`,
		Example: `  netcraq controllers remove c4`,
		Args:    cli.Arguments(1),
	}, func(args []string) (*controllerv1.ControllersRequest, error) {
		return &controllerv1.ControllersRequest{Remove: args[0]}, nil
	})
}

func newReplaceControllerCommand() *cobra.Command {
	return newMembersCommand(&cobra.Command{
		Use:   "replace NAME",
		Short: "Free the place of a controller that lost its disk",
		Long: `Free the place of a controller that lost its disk.

The controller is removed from the controllers' etcd, and a learner is added at its address. Then start it there again,
with an empty directory and --replacement. It copies the state while the others serve, and votes as soon as it has
everything. A majority of all controllers must run meanwhile. Read leases and writes go on.`,
		Example: `  netcraq controllers replace c2
  netcraq controller --name c2 --data-dir c2 --initial-cluster c1=192.0.2.1,c2=192.0.2.2,c3=192.0.2.3 --replacement`,
		Args: cli.Arguments(1),
	}, func(args []string) (*controllerv1.ControllersRequest, error) {
		return &controllerv1.ControllersRequest{Replace: args[0]}, nil
	})
}

// newMembersCommand completes a command that makes a request and shows the controllers.
func newMembersCommand(c *cobra.Command, request func(args []string) (*controllerv1.ControllersRequest, error)) *cobra.Command {
	var flags leaderFlags
	var wait bool
	c.RunE = func(c *cobra.Command, args []string) error {
		in, err := request(args)
		if err != nil {
			return err
		}
		return runControllers(c, &flags, in, wait)
	}
	flags.add(c)
	c.Flags().BoolVar(&wait, "wait", false, "return only when the change is complete: all controllers count and vote")
	return c
}

// runControllers makes a request, waits if asked to, and shows the controllers.
func runControllers(c *cobra.Command, flags *leaderFlags, request *controllerv1.ControllersRequest, wait bool) error {
	leader, err := flags.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ask := func(request *controllerv1.ControllersRequest) (*controllerv1.ControllersResponse, error) {
		ctx, cancel := context.WithTimeout(c.Context(), flags.timeout)
		defer cancel()
		return leader.Controllers(ctx, request)
	}
	out, err := ask(request)
	list := func() (*controllerv1.ControllersResponse, error) { return ask(&controllerv1.ControllersRequest{}) }
	if err == nil && (wait || len(out.GetMembers()) == 0) { // a leader that removed itself has no list
		out, err = list()
	}
	if err == nil && wait {
		out, err = awaitMembers(c.Context(), out, list)
	}
	if err != nil {
		return err
	}
	return printMembers(c.OutOrStdout(), out.GetMembers(), flags.json)
}

// awaitMembers waits until all controllers count and vote.
func awaitMembers(ctx context.Context, out *controllerv1.ControllersResponse, list func() (*controllerv1.ControllersResponse, error),
) (*controllerv1.ControllersResponse, error) {
	for !admin.AllVote(out) {
		select {
		case <-ctx.Done():
			why := errors.New("the controller has to be started, and to copy the state")
			if awaited := out.GetAwaited(); len(awaited) > 0 {
				why = fmt.Errorf("%s have to connect to the new controllers", strings.Join(awaited, ", "))
			}
			return nil, fmt.Errorf("the change is not complete: %w: %w", why, ctx.Err())
		case <-time.After(memberEvery):
		}
		var err error
		if out, err = list(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func printMembers(out io.Writer, members []*controllerv1.EtcdMember, json bool) error {
	shown := make([]member, len(members))
	for i, m := range members {
		shown[i] = member{Name: m.GetName(), Address: m.GetAddress(), Peer: m.GetPeer(), State: "member"}
		switch {
		case m.GetLeaving():
			shown[i].State = "leaving"
		case !m.GetStarted():
			shown[i].State = "not started"
		case m.GetLearner():
			shown[i].State = "learner"
		case m.GetJoining():
			shown[i].State = "joining"
		}
	}
	if json {
		return cli.PrintJSON(out, struct {
			Controllers []member `json:"controllers"`
		}{shown})
	}
	table := cli.NewTable(out)
	fmt.Fprintln(table, "NAME\tADDRESS\tSTATE")
	for _, m := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.Name, m.Address, m.State)
	}
	return table.Flush()
}
