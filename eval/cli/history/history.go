// Package history implements the commands that keep figures of commits and find the steps in them.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/history"
	"github.com/netcraq/netcraq/internal/cli"
)

// Commands returns the commands of this group.
func Commands() []*cobra.Command { return []*cobra.Command{newCommand()} }

// place is where lines and sources are.
type place struct{ source, file string }

func newCommand() *cobra.Command {
	p := new(place)
	c := &cobra.Command{
		Use:   "history",
		Short: cli.ShortOf("history"),
		Long: `Keeps figures of commits in a file, one line of JSON each. Figures are exact: instructions that the
verifier processes, lengths, counts, bytes. Lines of different days and loads can be compared, if kernel and
compilers are the same; else a figure is not compared. Ratios of rates (record --timed) only suggest a step:
compare decides.`,
	}
	f := c.PersistentFlags()
	f.StringVar(&p.source, "source", ".", "folder of a clone of NetCRAQ that is built")
	f.StringVar(&p.file, "file", "", "file of lines (default: "+history.Path+" in --source)")
	c.AddCommand(newRecordCommand(p), newCheckCommand(p), newShowCommand(p), newPlotCommand(p), newCompareCommand(p))
	return c
}

func (p *place) tree() *history.Tree {
	return &history.Tree{Dir: p.source, Bench: cli.BenchName, Unknown: cli.ExitUsage}
}

func (p *place) lines() ([]history.Line, error) {
	lines, err := history.ReadFile(p.path())
	if err == nil && len(lines) == 0 {
		err = fmt.Errorf("%s has no lines: netcraq history record >>%s adds one", p.path(), p.path())
	}
	return lines, err
}

func (p *place) path() string {
	if p.file != "" {
		return p.file
	}
	return filepath.Join(p.source, history.Path)
}

func newRecordCommand(p *place) *cobra.Command {
	var timed, asJSON bool
	c := &cobra.Command{
		Use:   "record [COMMIT]",
		Short: "Print the line of the source tree, or of a commit, which is built in a temporary worktree",
		Long: `Measures the programs in --source, or those of COMMIT, and prints one line of JSON. It takes seconds.
Without root, figures that need the kernel are missing.`,
		Example: `  netcraq history record >>eval/history.jsonl
  netcraq history record --timed HEAD~20`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			tree := p.tree()
			if len(args) == 1 {
				var remove func() error
				if tree, remove, err = tree.Checkout(c.Context(), args[0], c.ErrOrStderr()); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, remove()) }()
			}
			_, err = record(c.Context(), tree, timed, c.OutOrStdout())
			return err
		},
	}
	c.Flags().BoolVar(&timed, "timed", false, "add ratios of rates, which take half a minute")
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON, as always")
	return c
}

// record measures a tree and prints its line.
func record(ctx context.Context, tree *history.Tree, timed bool, out io.Writer) (*history.Line, error) {
	line, err := history.Measure(ctx, tree, timed)
	if err != nil {
		return nil, err
	}
	return line, json.NewEncoder(out).Encode(line)
}

func newCheckCommand(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Print the line of the source tree, and fail if a figure is more than 5 % worse than in the file's last line",
		Long: `A figure that users pay for must not get worse unnoticed: the commit that changes it adds the new line
to the file. Lines of code, words and dependencies grow with features: their steps are printed only.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lines, err := p.lines()
			if err != nil {
				return err
			}
			line, err := record(c.Context(), p.tree(), false, c.OutOrStdout())
			if err != nil {
				return err
			}
			return p.judge(lines, line, c.ErrOrStderr())
		},
	}
}

// judge prints the steps of a line, and returns an error if one is worse.
func (p *place) judge(lines []history.Line, line *history.Line, out io.Writer) error {
	steps, fresh := history.Steps(lines, line)
	worse := 0
	for i := range steps {
		s := &steps[i]
		mark := ""
		if s.Worse() {
			worse++
			mark = ": worse"
		}
		fmt.Fprintf(out, "%s: %s, %s in %s: %s%s\n", s.Figure,
			number(s.After), number(s.Before), s.Since, percent(s.Change()), mark)
	}
	if len(fresh) > 0 {
		fmt.Fprintf(out, "%d of %d figures have no line from the same kernel and compilers\n", len(fresh), len(line.Figures))
	}
	if worse > 0 {
		return fmt.Errorf("%d figures are more than %.0f %% worse: find the cause, or accept them by "+
			"`netcraq history record >>%s` and say why in the commit", worse, 100*history.Threshold, p.path())
	}
	return nil
}

func newPlotCommand(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "plot FILE",
		Short: "Draw each figure over time, as FILE.svg or FILE.png by the name's end",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			lines, err := p.lines()
			if err != nil {
				return err
			}
			picture := history.Picture(lines)
			write := picture.WriteSVG
			switch filepath.Ext(args[0]) {
			case ".svg":
			case ".png":
				write = picture.WritePNG
			default:
				return cli.UsageError(fmt.Errorf("%s: want a name that ends with .svg or .png", args[0]))
			}
			f, err := os.Create(args[0])
			if err != nil {
				return err
			}
			return errors.Join(write(f), f.Close())
		},
	}
}

func newCompareCommand(p *place) *cobra.Command {
	var rounds int
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare COMMIT COMMIT",
		Short: "Build two commits, run their benchmarks in turns, and name the ratios that have a step",
		Long: `Each round measures both commits, one after the other; the first changes with the round. A figure has a
step if the median of the rounds' changes is above 5 % and all rounds agree on its direction. Needs root.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if rounds < 1 {
				return cli.UsageError(fmt.Errorf("--rounds %d: want 1 or more", rounds))
			}
			if err := bench.Preflight(); err != nil {
				return err
			}
			found, err := compare(c, p.tree(), args[0], args[1], rounds)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), map[string]any{"before": args[0], "after": args[1], "figures": found})
			}
			return showComparison(c.OutOrStdout(), found)
		},
	}
	c.Flags().IntVar(&rounds, "rounds", 7, fmt.Sprintf("rounds; fewer than %d name no step", history.MinRounds))
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func compare(c *cobra.Command, tree *history.Tree, a, b string, rounds int) (found []history.Comparison, err error) {
	log := c.ErrOrStderr()
	var trees []*history.Tree
	for _, commit := range []string{a, b} {
		t, remove, err := tree.Checkout(c.Context(), commit, log)
		if err != nil {
			return nil, err
		}
		defer func() {
			if left := remove(); left != nil {
				fmt.Fprintf(log, "the worktree of %s is left behind: %v\n", commit, left)
			}
		}()
		trees = append(trees, t)
	}
	return history.CompareInTurns(c.Context(), trees[0], trees[1], rounds, func(format string, args ...any) {
		fmt.Fprintf(log, format+"\n", args...)
	})
}
