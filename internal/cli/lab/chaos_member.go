package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/program"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// switchWithin bounds `netcraq etcd off` and `on`.
const switchWithin = 30 * time.Second

// runMemberChaos is `netcraq lab chaos --member`.
func runMemberChaos(ctx context.Context, out, stderr io.Writer, name string, flags *chaosFlags) error {
	if _, err := seeded.ParseRule[core.Rule](core.RuleNames(), flags.without); err != nil {
		return cli.UsageError(err)
	}
	flags.Objects = gatewayObjects
	served, product, show, err := flags.begin(stderr, name)
	if err != nil {
		return err
	}
	command := []string{product, "etcd"}
	if flags.without != "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		command = []string{self, "lab", memberCommand, flags.without}
	}
	trial := chaos.MemberOptions{
		ServedOptions: served, Dir: memberDir, Peer: peerURL,
		Member: func(l *lab.Lab, h lab.Host, plain, joins bool) []string {
			if plain {
				return append([]string{product, "etcd"}, memberFlags(l, h, joins)...)
			}
			return slices.Concat(command, memberFlags(l, h, joins), chainFlags(l, h))
		},
		Switch: func(ctx context.Context, dir string, off bool) error {
			ctx, cancel := context.WithTimeout(ctx, switchWithin)
			defer cancel()
			what := map[bool]string{true: "off", false: "on"}[off]
			text, err := exec.CommandContext(ctx, product, "etcd", what, "--data-dir", dir).CombinedOutput()
			if err != nil {
				return fmt.Errorf("netcraq etcd %s: %w: %s", what, err, text)
			}
			return nil
		},
	}
	trial.Address, trial.HistoryAddress = memberAddress, memberAddress
	result, err := chaos.Members(ctx, trial)
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return flags.report(out, stderr, result, &result.ServedResult, func(table io.Writer) {
		fmt.Fprintf(table, "read through the chain\t%s\twrites of the chain\t%s\n",
			cli.Grouped(result.FastReads), cli.Grouped(result.Pushes))
		for _, reason := range slices.Sorted(maps.Keys(result.SlowReads)) {
			fmt.Fprintf(table, "read by etcd: %s\t%s\n", reason, cli.Grouped(result.SlowReads[reason]))
		}
		fmt.Fprintf(table, "stops with a warning\t%d\n", result.Warned)
	})
}

func memberDir(l *lab.Lab, h lab.Host) string { return l.DataDir("member-" + h.Name) }

// memberCommand is the hidden command that runs a member without a rule, for lab chaos.
const memberCommand = "member"

func newLabMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:                memberCommand,
		Short:              "Run a member of etcd without a rule",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("want a rule, and flags of netcraq etcd"))
			}
			rule, err := seeded.ParseRule[core.Rule](core.RuleNames(), args[0])
			if err != nil {
				return cli.UsageError(err)
			}
			program.MainWithout(rule, append([]string{cli.ProductName + " etcd"}, args[1:]...))
			return nil
		},
	}
}
