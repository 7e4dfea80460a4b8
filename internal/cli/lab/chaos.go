package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// chaosLab is the default name of the lab.
const chaosLab = "chaos"

type chaosFlags struct {
	ManagedFlags
	minutes, loss float64
	stopped       float64
	clients       int
	kinds         []string
	seed          uint64
	operations    int
	gateway       bool
	memory        bool
	member        bool
	keyspace      bool
	without       string // a rule of members
	upgradeFrom   string // a program; empty: faults
	json          bool
}

// servers reports whether the trial is one of servers of etcd's API.
func (flags *chaosFlags) servers() bool {
	return flags.gateway || flags.memory || flags.member || flags.keyspace
}

func newLabChaosCommand(name *string) *cobra.Command {
	flags := chaosFlags{ManagedFlags: ManagedDefaults()}
	flags.Nodes = 5
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Inject faults into a managed cluster under load, and check that no acknowledged write is lost",
		Long: `Brings up a managed lab and injects faults, chosen by the seed: nodes lose power or only their state, controllers lose
their disks and are replaced, agents and controllers are killed or paused, links go down, networks are partitioned, in one
direction too, and all links lose frames during the whole trial. There are never more faults at once than the chains can
survive, and a majority of the controllers stays up. In addition every agent and controller is paused briefly again and
again: these pauses must not leave a shard with fewer than two copies while two members of its chain are live.

Meanwhile clients put, get, delete, compare-and-set and add. Their history is checked for linearizability, and at the end
every acknowledged write is read from every node that must have it. The lab is removed at the end.

With --gateway every host of a controller also runs a member of etcd and a gateway, which are killed, paused and cut off too. Clients
use all gateways at once: reads of keys and ranges, puts, deletions, transactions, leases, watches. Everything that they see is
compared with etcd's history, revisions included. With --memory the gateways serve a keyspace in the memory of the chains, without
an etcd, and the history is that of the keyspace. With --keyspace it is on disks: gateways also lose their data, find
a wrong bit in it or no space, all gateways are killed at once, all nodes lose their state at once, and all processes
end at once.

With --member every host of a controller also runs a member of an etcd that reads through the chain (netcraq etcd). Members are
killed, paused for longer than their session lasts, cut off from each other or from the chain, removed and added again, as learners
too, replaced by plain etcd and back, and switched off and on. Clients use all members, and etcd's history is compared as above.`,
		Example: `  netcraq lab chaos --minutes 30
  netcraq lab chaos --minutes 0.5 --seed 7 --json
  netcraq lab chaos --gateway --minutes 10
  netcraq lab chaos --memory --minutes 5
  netcraq lab chaos --keyspace --minutes 30
  netcraq lab chaos --member --minutes 10
  netcraq lab chaos --member --minutes 1 --without push     # it has to fail`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lab := privateLab(c, chaosLab, *name, &flags.seed)
			if flags.servers() && c.Flags().Changed("stopped") {
				return cli.UsageError(errors.New("--stopped is not for --gateway, --memory, --keyspace and --member, whose faults include long pauses"))
			}
			return runChaos(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), lab, &flags)
		},
	}
	f := c.Flags()
	f.Float64Var(&flags.minutes, "minutes", 5, "how long faults are injected")
	f.Uint64Var(&flags.seed, "seed", 0, "seed of the faults and of the clients' operations (default: random, printed)")
	f.Float64Var(&flags.loss, "loss", 2, "percentage of frames that each link loses, during the whole trial")
	f.Float64Var(&flags.stopped, "stopped", 0.05,
		"share of the time during which every agent and controller is stopped, in pauses of 20 to 200 ms")
	f.IntVar(&flags.clients, "clients", 8, "number of clients at work")
	f.StringSliceVar(&flags.kinds, "faults", nil,
		"kinds of faults to inject, of "+strings.Join(chaos.GatewayKinds(), ", ")+
			" (default: all; those of gateways with --gateway and --memory only, those of etcd with --gateway only); with --keyspace "+
			"of "+strings.Join(chaos.KeyspaceKinds(), ", ")+"; with --member of "+strings.Join(chaos.MemberKinds(), ", "))
	f.BoolVar(&flags.gateway, "gateway", false, "try gateways for etcd's clients, with an etcd of their own")
	f.BoolVar(&flags.memory, "memory", false, "try gateways of a keyspace in memory")
	f.BoolVar(&flags.keyspace, "keyspace", false, "try gateways of a keyspace on disks")
	f.BoolVar(&flags.member, "member", false, "try members of etcd that read through the chain")
	f.StringVar(&flags.without, "without", "", "with --member: a rule that members do not keep, as with sim --member, to see that it is noticed")
	f.IntVar(&flags.operations, "operations", 0,
		"with --gateway, --memory, --keyspace and --member: end after so many operations (default: when the minutes are over)")
	f.StringVar(&flags.upgradeFrom, "upgrade-from", "",
		"path of netcraq of another version: begin with it, replace each process by this version and back, without faults")
	c.MarkFlagsMutuallyExclusive("upgrade-from", "faults")
	c.MarkFlagsMutuallyExclusive("upgrade-from", "member")
	c.MarkFlagsMutuallyExclusive("gateway", "memory", "keyspace", "member")
	f.IntVar(&flags.Shards, "shards", flags.Shards, "number of shards, a power of two")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	flags.ManagedFlags.Add(f)
	return c
}

func runChaos(ctx context.Context, out, stderr io.Writer, name string, flags *chaosFlags) error {
	if flags.minutes <= 0 || flags.clients < 1 {
		return cli.UsageError(fmt.Errorf("--minutes %v --clients %d: want more than 0 of both", flags.minutes, flags.clients))
	}
	if flags.stopped < 0 || flags.stopped >= 1 {
		return cli.UsageError(fmt.Errorf("--stopped %v: want a share from 0 to below 1", flags.stopped))
	}
	kinds := flags.possible()
	for _, kind := range flags.kinds {
		if !slices.Contains(kinds, kind) {
			return cli.UsageError(fmt.Errorf("--faults %s: want some of %s", kind, strings.Join(kinds, ", ")))
		}
	}
	if err := lab.Loss.CheckPercent(flags.loss); err != nil {
		return cli.UsageError(err)
	}
	if flags.operations < 0 || flags.operations > 0 && !flags.servers() {
		return cli.UsageError(errors.New("--operations wants a number of at least 0, and --gateway, --memory, --keyspace or --member"))
	}
	flags.observed = true
	if flags.upgradeFrom != "" {
		end, err := flags.prepareUpgrade()
		if err != nil {
			return err
		}
		defer end()
	}
	switch {
	case flags.member:
		return runMemberChaos(ctx, out, stderr, name, flags)
	case flags.without != "":
		return cli.UsageError(errors.New("--without is for --member only"))
	case flags.keyspace:
		return runKeyspaceChaos(ctx, out, stderr, name, flags)
	case flags.servers():
		return runGatewayChaos(ctx, out, stderr, name, flags)
	}
	o, err := flags.Options(name)
	if err != nil {
		return err
	}
	o.Owned, o.Progress = true, progressTo(stderr)
	show := NewShow(stderr)
	fmt.Fprintf(stderr, "seed %d\n", flags.seed)
	result, err := chaos.Chaos(ctx, chaos.ChaosOptions{
		Setup: flags.setup(o, show, TrialLogs(name, flags.seed)),
		For:   time.Duration(flags.minutes * float64(time.Minute)), Seed: flags.seed, Clients: flags.clients,
		Kinds: flags.kinds, Loss: flags.loss, Stopped: flags.stopped, Progress: show.chaos,
	})
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return printChaos(out, stderr, flags, result)
}

// prepareUpgrade makes the link by which processes of both versions are started. end removes it.
func (flags *chaosFlags) prepareUpgrade() (end func(), err error) {
	from, err := filepath.Abs(flags.upgradeFrom)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(from); err != nil {
		return nil, cli.UsageError(fmt.Errorf("--upgrade-from: %w", err))
	}
	to, err := cli.ProductPath()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "netcraq-upgrade-")
	if err != nil {
		return nil, err
	}
	end = func() { _ = os.RemoveAll(dir) }
	flags.loss, flags.stopped = 0, 0
	flags.upgrade = &chaos.Upgrade{
		Link: filepath.Join(dir, cli.ProductName), From: from, To: to, Keeps: flags.plane == cli.PlaneXDP,
	}
	if err := flags.upgrade.Use(from); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// possible returns the kinds of faults.
func (flags *chaosFlags) possible() []string {
	switch {
	case flags.gateway:
		return chaos.GatewayKinds()
	case flags.memory:
		return chaos.MemoryKinds()
	case flags.keyspace:
		return chaos.KeyspaceKinds()
	case flags.member:
		return chaos.MemberKinds()
	}
	return chaos.Kinds()
}

// TrialLogs returns the directory for the logs of a failed trial.
func TrialLogs(lab string, seed uint64) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("netcraq-%s-%d", lab, seed))
}

func printChaos(out, stderr io.Writer, flags *chaosFlags, r *chaos.ChaosResult) error {
	if flags.json {
		fmt.Fprint(stderr, r.Explain())
		if err := cli.PrintJSON(out, r); err != nil {
			return err
		}
	} else {
		printChaosTable(out, r)
	}
	switch {
	case flags.upgrade != nil && r.Unknown > 0:
		return fmt.Errorf("the client's retries did not hide %d failures from callers", r.Unknown)
	case r.LostAcknowledged > 0:
		return fmt.Errorf("%d acknowledged writes are lost", r.LostAcknowledged)
	case !r.Linearizable:
		return errors.New("the history is not linearizable")
	case r.TooFewCopies():
		return errors.New("a shard lost copies on live nodes")
	case !r.OK():
		return errors.New("agents or controllers ended unexpectedly")
	}
	return nil
}

func printChaosTable(out io.Writer, r *chaos.ChaosResult) {
	fmt.Fprint(out, r.Explain())
	table := cli.NewTable(out)
	defer table.Flush()
	fmt.Fprintf(table, "\nacknowledged writes\t%s\tlost\t%d\n", cli.Grouped(uint64(r.Acknowledged)), r.LostAcknowledged)
	fmt.Fprintf(table, "longest time without a write\t%.0f ms\twithout a read\t%.0f ms\n",
		r.LongestWriteGapMs, r.LongestReadGapMs)
	fmt.Fprintf(table, "changes of the cluster's state\t%s\ttimes made whole\t%d\n", cli.Grouped(r.Changes), r.Repairs)
	fmt.Fprintf(table, "least copies while two members lived\t%d\tnodes suspected\t%d\n", r.LeastCopies, r.Suspected)
	fmt.Fprintf(table, "short pauses\t%s\n", cli.Grouped(uint64(r.Pauses)))
	kinds := make([]string, 0, len(r.Faults))
	for kind := range r.Faults {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		fmt.Fprintf(table, "%s\t%d\n", strings.ReplaceAll(kind, "_", " "), r.Faults[kind])
	}
}

// Show prints events line by line and, on a terminal, the current progress below them.
type Show struct {
	mu       sync.Mutex
	w        io.Writer
	began    time.Time
	terminal bool
	last     chaos.ChaosProgress
	at       time.Time
	rates    [2]float64
	line     string
}

// NewShow returns a Show that writes to w.
func NewShow(w io.Writer) *Show {
	return &Show{w: w, began: time.Now(), terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

func (s *Show) Event(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintf(s.w, "%7.2f s  %s\n", time.Since(s.began).Seconds(), text)
	s.draw()
}

func (s *Show) clear() {
	if s.terminal {
		fmt.Fprint(s.w, cli.ClearLine)
	}
}

func (s *Show) draw() {
	if s.terminal {
		fmt.Fprint(s.w, s.line)
	}
}

// chaos shows the progress of a trial.
func (s *Show) chaos(p chaos.ChaosProgress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.at); since >= time.Second {
		s.rates = [2]float64{float64(p.Writes-s.last.Writes) / since.Seconds(),
			float64(p.Reads-s.last.Reads) / since.Seconds()}
		s.last, s.at = p, time.Now()
	}
	state := "whole"
	if p.State != "" {
		state = p.State
	}
	faults := "no fault"
	if len(p.Faults) > 0 {
		faults = strings.Join(p.Faults, "; ")
	}
	s.showLine(fmt.Sprintf("%s  %s ops  %.0f writes/s %.0f reads/s  gaps %d/%d ms  %d repairs  %s  [%s]",
		p.Elapsed.Round(time.Second), cli.Grouped(uint64(p.Ops)), s.rates[0], s.rates[1],
		p.Gaps[0].Milliseconds(), p.Gaps[1].Milliseconds(), p.Repairs, state, faults))
}

// setLine sets the line below the events.
func (s *Show) setLine(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.showLine(line)
}

func (s *Show) showLine(line string) {
	s.line = line
	if width, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && len(s.line) >= width {
		s.line = s.line[:max(width-1, 0)]
	}
	s.clear()
	s.draw()
}

func (s *Show) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = ""
	s.clear()
}
