package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/local"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// Ports of etcd and of its gateway on a lab's hosts of controllers.
const (
	etcdClientPort = "2379"
	etcdPeerPort   = "2380"
	gatewayPort    = "23790"
)

// gatewayCellBytes is the cell length of chains in trials of gateways: with it an object fits a cell.
const gatewayCellBytes = 1352

// gatewayObjects is how many objects nodes hold in such trials.
const gatewayObjects = 5000

// memoryEntries is the length of the log of a keyspace in memory. It has all writes of a trial: a gateway that starts again
// reads the whole history, from which watches continue.
const memoryEntries = 1 << 15

// runGatewayChaos is `netcraq lab chaos --gateway`, and with --memory.
func runGatewayChaos(ctx context.Context, out, stderr io.Writer, name string, flags *chaosFlags) error {
	flags.CellBytes, flags.Objects = gatewayCellBytes, gatewayObjects
	if flags.memory {
		flags.Objects += memoryEntries
	}
	served, product, show, err := flags.begin(stderr, name)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	trial := chaos.GatewayOptions{
		ServedOptions: served,
		Member: func(l *lab.Lab, h lab.Host) []string {
			return []string{
				self, "lab", etcdCommand, "--member", h.Name, "--data-dir", l.DataDir("etcd-" + h.Name),
				"--client", "http://" + memberAddress(h), "--peer", peerURL(h), "--initial-cluster",
				strings.Join(onControllers(l, func(h lab.Host) string { return h.Name + "=" + peerURL(h) }), ","),
			}
		},
		Gateway: func(l *lab.Lab, h lab.Host) []string {
			return []string{
				product, "gateway", "--listen", gatewayAddress(h), "--controllers", strings.Join(l.Controllers(), ","),
				"--etcd-endpoints", strings.Join(onControllers(l, func(h lab.Host) string { return "http://" + memberAddress(h) }), ","),
				"--pins", gatewayPins(l, h), "--pin", chaos.GatewayPin,
			}
		},
	}
	trial.Address, trial.HistoryAddress = gatewayAddress, memberAddress
	if flags.memory {
		trial.Member, trial.HistoryAddress = nil, gatewayAddress
		trial.Gateway = func(l *lab.Lab, h lab.Host) []string {
			return []string{
				product, "gateway", "--memory", "--listen", gatewayAddress(h), "--controllers", strings.Join(l.Controllers(), ","),
				"--log-entries", strconv.Itoa(memoryEntries),
			}
		}
	}
	result, err := chaos.Gateways(ctx, trial)
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return flags.report(out, stderr, result, &result.ServedResult, func(table io.Writer) {
		fmt.Fprintf(table, "read from the chain\t%s\tof these, from memory\t%s\n",
			cli.Grouped(result.Hits), cli.Grouped(result.NearbyHits))
	})
}

// gatewayPins is where a gateway finds nodes on its machine, which all hosts of a lab share. The first gateway has to use the network.
func gatewayPins(l *lab.Lab, h lab.Host) string {
	if h.Name == l.Plan.With(lab.RoleController)[0].Name {
		return ""
	}
	return l.PinsDir()
}

func gatewayAddress(h lab.Host) string { return h.Addr.String() + ":" + gatewayPort }
func memberAddress(h lab.Host) string  { return h.Addr.String() + ":" + etcdClientPort }
func peerURL(h lab.Host) string        { return "http://" + h.Addr.String() + ":" + etcdPeerPort }

func onControllers(l *lab.Lab, of func(lab.Host) string) (all []string) {
	for _, h := range l.Plan.With(lab.RoleController) {
		all = append(all, of(h))
	}
	return all
}

// begin returns the options that trials of servers have in common, and the path of the product. It prints the seed.
func (flags *chaosFlags) begin(
	stderr io.Writer, name string,
) (served chaos.ServedOptions, product string, show *Show, err error) {
	o, err := flags.Options(name)
	if err != nil {
		return served, "", nil, err
	}
	o.Owned, o.Progress = true, progressTo(stderr)
	if product, err = flags.product(); err != nil {
		return served, "", nil, err
	}
	show = NewShow(stderr)
	fmt.Fprintf(stderr, "seed %d\n", flags.seed)
	return flags.served(name, o, show), product, show, nil
}

// served returns the options of a trial of servers on a lab.
func (flags *chaosFlags) served(name string, o lab.Options, show *Show) chaos.ServedOptions {
	return chaos.ServedOptions{
		Setup: flags.setup(o, show, TrialLogs(name, flags.seed)),
		For:   time.Duration(flags.minutes * float64(time.Minute)), Operations: flags.operations, Seed: flags.seed,
		Clients: flags.clients, Kinds: flags.kinds, Loss: flags.loss, Progress: show.served,
	}
}

// report prints the result of a trial of servers. rows prints the rows that only its kind has. The error says that the
// trial failed.
func (flags *chaosFlags) report(
	out, stderr io.Writer, result any, served *chaos.ServedResult, rows func(table io.Writer),
) error {
	if flags.json {
		fmt.Fprint(stderr, served.Explain())
		if err := cli.PrintJSON(out, result); err != nil {
			return err
		}
		return verdict(served)
	}
	fmt.Fprint(out, served.Explain())
	table := cli.NewTable(out)
	printServed(table, served)
	rows(table)
	printStruck(table, served)
	if err := table.Flush(); err != nil {
		return err
	}
	return verdict(served)
}

// verdict returns the error of a trial that failed.
func verdict(r *chaos.ServedResult) error {
	switch {
	case r.Violations > 0:
		return fmt.Errorf("%d violations: the answers to clients contradict the history", r.Violations)
	case !r.OK():
		return errors.New("processes ended unexpectedly")
	}
	return nil
}

// printServed prints the rows that trials of servers have in common, and printStruck those of the faults.
func printServed(table io.Writer, r *chaos.ServedResult) {
	fmt.Fprintf(table, "operations\t%s\tviolations\t%d\n", cli.Grouped(uint64(r.Ops)), r.Violations)
	fmt.Fprintf(table, "of unknown outcome\t%s\ttimes made whole\t%d\n", cli.Grouped(uint64(r.Unknown)), r.Repairs)
	fmt.Fprintf(table, "watch events\t%s\n", cli.Grouped(uint64(r.Events)))
}

func printStruck(table io.Writer, r *chaos.ServedResult) {
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(table, "%s\t%d\n", strings.ReplaceAll(kind, "_", " "), r.Faults[kind])
	}
}

// served shows the progress of a trial of servers.
func (s *Show) served(p chaos.ServedProgress) {
	faults := "no fault"
	if len(p.Faults) > 0 {
		faults = strings.Join(p.Faults, "; ")
	}
	s.setLine(fmt.Sprintf("%s  %s ops  %d unknown  %s from the chain  [%s]", p.Elapsed.Round(time.Second),
		cli.Grouped(uint64(p.Ops)), p.Unknown, cli.Grouped(p.FromChain), faults))
}

// etcdCommand is the hidden command that runs a member of etcd for lab chaos.
const etcdCommand = "etcd"

func newLabEtcdCommand() *cobra.Command {
	var m local.Member
	c := &cobra.Command{
		Use:    etcdCommand,
		Short:  "Run a member of etcd",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(c *cobra.Command, _ []string) error { return m.Run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&m.Name, "member", "", "name of the member")
	f.StringVar(&m.Dir, "data-dir", "", "directory for its data")
	f.StringVar(&m.Client, "client", "", "URL for clients")
	f.StringVar(&m.Peer, "peer", "", "URL for other members")
	f.StringVar(&m.Initial, "initial-cluster", "", "all members: NAME=URL,...")
	return c
}
