package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
)

// giveUp is the command that gives up disks of a keyspace.
type giveUp struct {
	leaderFlags
	lost []string
	yes  bool
}

func newGiveUpDisksCommand() *cobra.Command {
	g := new(giveUp)
	c := &cobra.Command{
		Use:   "give-up-disks KEYSPACE",
		Short: "Let a keyspace go on after a majority of its disks was lost",
		Long: `Let a keyspace go on after a majority of its disks was lost

A keyspace whose majority of disks is lost stands still. If one of them can still be started with its data, do that
instead: then nothing is lost. This command gives up the disks that no gateway has any more, and those of the gateways
that --lost names. The keyspace goes on with what the other disks have.`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = func(c *cobra.Command, args []string) error { return g.run(c, args[0]) }
	g.add(c)
	c.Flags().StringSliceVar(&g.lost, "lost", nil, "`gateways` whose disks are lost for ever")
	c.Flags().BoolVar(&g.yes, "yes", false, "do not ask for confirmation")
	return c
}

func (g *giveUp) run(c *cobra.Command, name string) error {
	leader, err := g.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ctx, cancel := context.WithTimeout(c.Context(), g.timeout)
	defer cancel()
	var found *controllerv1.KeyspaceResponse
	err = leader.Ask(ctx, func(ctx context.Context, client controllerv1.ControllerClient) error {
		stream, err := client.Keyspace(ctx, &controllerv1.KeyspaceRequest{Name: name})
		if err == nil {
			found, err = stream.Recv()
		}
		return err
	})
	if err != nil {
		return err
	}
	k := found.GetKeyspace()
	if k.GetActive().GetNumber() == 0 {
		return fmt.Errorf("there is no keyspace %q on disks: `netcraq status` shows those that there are", name)
	}
	given, left, err := g.choose(k)
	if err != nil {
		return err
	}
	if !g.yes {
		question := fmt.Sprintf("What was acknowledged and only the disks of %s have will be lost for ever. Keyspace %s "+
			"goes on with what %s has. Type the keyspace's name to continue: ", namesOf(k, given), name, namesOf(k, left))
		if err := confirm(c.InOrStdin(), c.ErrOrStderr(), question, name); err != nil {
			return err
		}
	}
	again, cancel := context.WithTimeout(c.Context(), g.timeout) // the user may have thought for long
	defer cancel()
	request := &controllerv1.GiveUpDisksRequest{Keyspace: name, Version: found.GetVersion(), Disks: given}
	err = leader.Ask(again, func(ctx context.Context, client controllerv1.ControllerClient) error {
		_, err := client.GiveUpDisks(ctx, request)
		return err
	})
	if err != nil {
		return err
	}
	if g.json {
		return cli.PrintJSON(c.OutOrStdout(), map[string]any{"keyspace": name, "given_up": len(given), "left": len(left)})
	}
	fmt.Fprintf(c.OutOrStdout(), "keyspace %s goes on with what %s has, as soon as its gateways run\n", name,
		namesOf(k, left))
	return nil
}

// choose divides the disks of the active era into those that are given up and those that are left.
func (g *giveUp) choose(k *controllerv1.Keyspace) (given, left []*controllerv1.KeyspaceDisk, err error) {
	named := make(map[string]bool)
	for _, d := range k.GetActive().GetDisks() {
		member := memberOf(k, d)
		if named[member] = true; member == "" || slices.Contains(g.lost, member) {
			given = append(given, d)
		} else {
			left = append(left, d)
		}
	}
	for _, member := range g.lost {
		if !named[member] {
			return nil, nil, cli.UsageError(fmt.Errorf("the disk of %q does not count in keyspace %s: %s do", member,
				k.GetName(), namesOf(k, k.GetActive().GetDisks())))
		}
	}
	if len(given) == 0 {
		return nil, nil, cli.UsageError(fmt.Errorf("each disk of keyspace %s has a gateway, of %s: name those whose disks "+
			"are lost with --lost", k.GetName(), namesOf(k, left)))
	}
	return given, left, nil
}

// memberOf is the gateway that has a disk; empty: none has it any more.
func memberOf(k *controllerv1.Keyspace, d *controllerv1.KeyspaceDisk) string {
	for _, g := range k.GetGateways() {
		if g.GetDisk().GetName() == d.GetName() && g.GetDisk().GetIdentity() == d.GetIdentity() {
			return g.GetMember()
		}
	}
	return ""
}

// namesOf lists the gateways of disks.
func namesOf(k *controllerv1.Keyspace, disks []*controllerv1.KeyspaceDisk) string {
	names := make([]string, len(disks))
	for i, d := range disks {
		if names[i] = memberOf(k, d); names[i] == "" {
			names[i] = fmt.Sprintf("nobody (disk %x/%x)", d.GetName(), d.GetIdentity())
		}
	}
	return strings.Join(names, ", ")
}
