package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/figure/papers"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// figureFlags are the flags of both commands that make figures.
type figureFlags struct {
	quick, again bool
	dir          string
}

func (flags *figureFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&flags.quick, "quick", false, "few points and short rounds: seconds per figure")
	f.BoolVar(&flags.again, "again", false, "start over instead of continuing an interrupted run")
	f.StringVar(&flags.dir, "dir", "out/figures", "where the folders of runs are written")
}

func newBenchFigureCommand(out *benchOutput) *cobra.Command {
	flags := new(figureFlags)
	c := &cobra.Command{
		Use:   "figure NAME",
		Short: "Make one figure of the papers, from measurements on this machine",
		Long: `Measures everything that a figure compares, in alternation, and writes NAME.svg, NAME.png, NAME.csv, and the
report of all figures made so far, into the folder of the last run. Every measurement is written to raw/NAME.jsonl at
once. If the run is interrupted, the same command continues it. 'bench figures --list' lists the figures.`,
		Example: `  netcraq bench figure netcraq-distance
  netcraq bench figure peers-operations --quick --json`,
		Args: cli.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			spec := figure.Find(papers.All(figureTools()), args[0])
			if spec == nil {
				return cli.UsageError(fmt.Errorf("there is no figure %q: 'netcraq bench figures --list' names them", args[0]))
			}
			return runFigure(c, out, flags, spec)
		},
	}
	flags.add(c)
	return c
}

// figureLab is the lab of figures that need a whole cluster.
const figureLab = "figures"

// figureTools returns the parts of this command that figures need to run clusters.
func figureTools() papers.Tools {
	cluster := func(say func(string)) (chaos.Setup, error) {
		m := lab.ManagedDefaults()
		o, err := m.Options(figureLab)
		o.Owned, o.Progress = true, say
		return chaos.Setup{
			Lab: o, Replicas: m.Replicas, Leader: lab.LeaderOf, Event: say,
			Logs: lab.TrialLogs(figureLab, uint64(os.Getpid())),
		}, err
	}
	return papers.Tools{Cluster: cluster, Kubernetes: func() (kubernetes.Options, error) {
		return lab.KubernetesDefaults().Options(figureLab)
	}}
}

// runFigure makes one figure.
func runFigure(c *cobra.Command, out *benchOutput, flags *figureFlags, spec *figure.Spec) error {
	folder, err := figure.FolderOfFigure(flags.dir)
	if err != nil {
		return err
	}
	show := newFigureShow(c.ErrOrStderr())
	failed, err := figure.Run(c.Context(), spec, flags.options(folder, show))
	show.end()
	if c.Context().Err() != nil {
		return errors.Join(publishOnly(flags.dir),
			errors.New("interrupted; the measurements are kept, and the same command continues"))
	}
	if err != nil {
		return errors.Join(publishOnly(flags.dir), fmt.Errorf("figure %s: %w", spec.Name, err))
	}
	if err := publishOnly(flags.dir); err != nil {
		return err
	}
	outcome, err := figure.Load(folder, spec)
	if err != nil {
		return err
	}
	if out.json {
		err = cli.PrintJSON(c.OutOrStdout(), outcome.Made(folder))
	} else {
		printFigure(c.OutOrStdout(), outcome.Made(folder))
	}
	if failed > 0 {
		return errors.Join(err, fmt.Errorf("%d measurements failed, the last: %s", failed,
			outcome.Failed[len(outcome.Failed)-1].Why))
	}
	return err
}

// publishOnly draws the last run in a directory again, or the run whose folder it is.
func publishOnly(dir string) error {
	specs := papers.All(figureTools())
	if figure.IsFolder(dir) {
		_, err := figure.Publish(dir, specs)
		return err
	}
	_, err := figure.PublishLatest(dir, specs)
	return err
}

func (flags *figureFlags) options(dir string, show *figureShow) figure.Options {
	return figure.Options{Dir: dir, Quick: flags.quick, Again: flags.again, Progress: show.progress, Say: show.say}
}

// printFigure prints the measurements of a figure.
func printFigure(w io.Writer, m *figure.Made) {
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprintln(table, "series\tat\tmetric\tmedian\tlow\thigh\tunit\trounds")
	for _, r := range m.Rows {
		if !r.Drawn {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.4g\t%.4g\t%.4g\t%s\t%d\n", r.Series, r.Place, r.Metric, r.Median, r.Low,
			r.High, r.Unit, r.Rounds)
	}
	for _, mark := range m.Marks {
		verdict, ratio := "missed", ""
		switch {
		case mark.Ratio == nil:
			verdict = "not measured"
		case mark.Met:
			verdict = "met"
		}
		if mark.Ratio != nil {
			ratio = fmt.Sprintf("%.3g, ", *mark.Ratio)
		}
		fmt.Fprintf(table, "\n%s: %s: %swanted %s", verdict, mark.Metric, ratio, mark.Wanted)
	}
	if len(m.Marks) > 0 {
		fmt.Fprintln(table)
	}
	for _, note := range m.Notes {
		fmt.Fprintf(table, "\n%s: %s", note.Verdict, note.Text)
	}
	fmt.Fprintln(table)
	for _, u := range m.Unable {
		fmt.Fprintf(table, "\nnot possible here: %s %s", u.Series, u.Why)
	}
	for _, file := range m.Files {
		fmt.Fprintf(table, "\nwrote %s", file)
	}
	fmt.Fprintln(table)
}

func newBenchFiguresCommand(out *benchOutput) *cobra.Command {
	flags, list, report := new(figureFlags), false, false
	c := &cobra.Command{
		Use:   "figures",
		Short: "Make all figures of the papers, and the report",
		Long: `Makes all figures, one after the other, and writes report.html, summary.json, and a picture and the data of each.
Each run has a folder of its own, to which the link 'latest' points; report.html of the last run is beside it, too. An
interrupted run keeps its results. The same command continues it, and repeats measurements that failed or were not
possible. If it cannot continue, as with another build or mode, it gives the reason and begins another run. A figure that
cannot be made here does not stop the others; the output and the report give the reason. --report draws the last run
again; with --dir and the folder of a run, that run.`,
		Example: `  netcraq bench figures --quick
  netcraq bench figures --list`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case list:
				return listFigures(c.OutOrStdout(), out.json)
			case report:
				return publishOnly(flags.dir)
			}
			return runFigures(c, out, flags)
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&list, "list", false, "list the figures without making any")
	c.Flags().BoolVar(&report, "report", false, "draw pictures and report again from existing measurements")
	return c
}

// figureName is a figure in the list.
type figureName struct {
	Name    string  `json:"figure"`
	Title   string  `json:"title"`
	Source  string  `json:"source"`
	Root    bool    `json:"needs_root"`
	CPUs    int     `json:"needs_cpus"`
	Made    string  `json:"needs_made,omitempty"` // a command to be run once before
	QuickS  float64 `json:"quick_budget_s"`
	BudgetS float64 `json:"budget_s"`
}

func listFigures(w io.Writer, asJSON bool) error {
	var names []figureName
	for _, s := range papers.All(figureTools()) {
		names = append(names, figureName{
			s.Name, s.Title, s.Source.Paper, s.Needs.Root, max(s.Needs.CPUs, 1), s.Needs.Made, s.Quick.Budget.Seconds(),
			s.Full.Budget.Seconds(),
		})
	}
	if asJSON {
		return cli.PrintJSON(w, names)
	}
	table := cli.NewTable(w)
	defer table.Flush()
	for _, n := range names {
		fmt.Fprintf(table, "%s\t%s\t%s\n", n.Name, n.Title, n.Source)
	}
	return nil
}

// figuresMade is the result of making all figures.
type figuresMade struct {
	*figure.BatchResult
	ElapsedS float64         `json:"elapsed_s"`
	Report   string          `json:"report"`
	Summary  []figure.Result `json:"summary"`
}

func runFigures(c *cobra.Command, out *benchOutput, flags *figureFlags) error {
	show := newFigureShow(c.ErrOrStderr())
	result, err := figure.RunAll(c.Context(), papers.All(figureTools()), flags.options(flags.dir, show))
	show.end()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted after %v; the measurements are kept, and the same command continues",
			result.Elapsed.Round(time.Second))
	case err != nil:
		return err
	}
	report := filepath.Join(flags.dir, figure.ReportName)
	if out.json {
		summary, err := figure.Summary(result.Folder, papers.All(figureTools()))
		if err != nil {
			return err
		}
		if err := cli.PrintJSON(c.OutOrStdout(), figuresMade{result, result.Elapsed.Seconds(), report, summary}); err != nil {
			return err
		}
	} else {
		printBatch(c.OutOrStdout(), result, report)
	}
	if len(result.Failed) > 0 {
		return fmt.Errorf("%d figures failed: %s has the reasons", len(result.Failed), report)
	}
	return nil
}

func printBatch(w io.Writer, t *figure.BatchResult, report string) {
	fmt.Fprintf(w, "%d figures made in %v", len(t.Made), t.Elapsed.Round(time.Second))
	if len(t.Kept) > 0 {
		fmt.Fprintf(w, ", %d kept from the run that was interrupted", len(t.Kept))
	}
	fmt.Fprintln(w)
	for _, text := range t.Unable {
		fmt.Fprintln(w, "not possible here:", text)
	}
	for _, text := range t.Failed {
		fmt.Fprintln(w, "failed:", text)
	}
	fmt.Fprintln(w, "wrote", report)
}
