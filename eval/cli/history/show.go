package history

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/history"
	"github.com/netcraq/netcraq/internal/cli"
)

func newShowCommand(p *place) *cobra.Command {
	var last int
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the figures of the last commits, and mark steps of more than 5 %",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if last < 1 {
				return cli.UsageError(fmt.Errorf("--last %d: want 1 or more commits", last))
			}
			lines, err := p.lines()
			if err != nil {
				return err
			}
			return show(c.OutOrStdout(), lines, last)
		},
	}
	c.Flags().IntVar(&last, "last", 6, "number of commits")
	return c
}

// show prints a table with a column for each commit. A step is compared with the line before, also one that is not
// shown.
func show(out io.Writer, lines []history.Line, last int) error {
	first := max(len(lines)-last, 0)
	shown := lines[first:]
	changes := make([]map[string]float64, len(shown))
	for i := range shown {
		changes[i] = make(map[string]float64)
		steps, _ := history.Steps(lines[:first+i], &shown[i])
		for _, s := range steps {
			changes[i][s.Figure] = s.Change()
		}
	}
	table := cli.NewTable(out)
	header(table, shown)
	for _, figure := range history.FiguresOf(shown) {
		fmt.Fprint(table, figure)
		for i := range shown {
			fmt.Fprint(table, "\t", cell(shown[i].Figures, figure))
			if step, ok := changes[i][figure]; ok {
				fmt.Fprintf(table, " (%s)", percent(step))
			}
		}
		fmt.Fprintln(table)
	}
	for _, figure := range history.TimedOf(shown) {
		fmt.Fprintf(table, "~ %s", figure)
		for i := range shown {
			fmt.Fprint(table, "\t", cell(shown[i].Timed, figure))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil || len(history.TimedOf(shown)) == 0 {
		return err
	}
	_, err := fmt.Fprintln(out, "\n~ ratios of rates: only `netcraq history compare` names a step in them")
	return err
}

func header(table io.Writer, lines []history.Line) {
	fmt.Fprint(table, "figure")
	for i := range lines {
		fmt.Fprint(table, "\t", lines[i].Short())
	}
	fmt.Fprint(table, "\nday")
	for i := range lines {
		fmt.Fprint(table, "\t", lines[i].Time.Format("01-02 15:04"))
	}
	fmt.Fprint(table, "\nkernel")
	for i := range lines {
		fmt.Fprint(table, "\t", lines[i].Tools[history.Kernel])
	}
	fmt.Fprintln(table)
}

func cell(figures map[string]float64, figure string) string {
	v, ok := figures[figure]
	if !ok {
		return "-"
	}
	return number(v)
}

// number prints a whole number with commas, and others with three digits.
func number(v float64) string {
	if v == math.Trunc(v) || v >= 1000 {
		return cli.Grouped(uint64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func percent(change float64) string {
	if math.IsInf(change, 1) {
		return "from nothing"
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

func showComparison(out io.Writer, found []history.Comparison) error {
	table := cli.NewTable(out)
	fmt.Fprintln(table, "figure\tleast\tmedian\tmost\t")
	for i := range found {
		f := &found[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.Figure,
			percent(f.Least-1), percent(f.Median-1), percent(f.Most-1), f.Verdict)
	}
	return table.Flush()
}
