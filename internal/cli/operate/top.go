package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
)

func newTopCommand() *cobra.Command {
	var flags leaderFlags
	var keys keysFlags
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a cluster: nodes, loads, hot shards, repairs; or the keys of gateways",
		Long: `Watch a cluster: nodes, loads, hot shards, repairs.

On a terminal the screen is updated twice a second, with --keys every two seconds, until q or Ctrl-C. Otherwise, and with
--json, it is printed once.

With --keys the keys are printed that clients of gateways use most: how often, how many of their reads the chain answers,
and why they are cached or not.`,
		Example: `  netcraq top --controllers 192.0.2.11:4413
  netcraq top --keys --gateways 127.0.0.1:23790`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file, ok := c.OutOrStdout().(*os.File)
			once := flags.json || !ok || !cli.IsTerminal(file)
			switch {
			case keys.keys:
				return runKeys(c, &keys, &flags, once)
			case once:
				return runStatus(c, &flags)
			}
			return flags.either(func(s *staticChain) error { return s.top(c.Context(), file) },
				func(leader *admin.Leader) error { return runTop(c.Context(), file, leader, flags.timeout) })
		},
	}
	flags.add(c)
	keys.add(c)
	return c
}

func newStatusCommand() *cobra.Command {
	var flags leaderFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show a cluster: nodes, loads, hot shards, repairs",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runStatus(c, &flags) },
	}
	flags.add(c)
	return c
}

func runStatus(c *cobra.Command, flags *leaderFlags) error {
	return flags.either(func(s *staticChain) error { return s.status(c, flags.json) }, func(leader *admin.Leader) error {
		ctx, cancel := context.WithTimeout(c.Context(), flags.timeout)
		defer cancel()
		snapshot, err := leader.Snapshot(ctx)
		if snapshot == nil {
			return err
		}
		return errors.Join(printStatus(c.OutOrStdout(), snapshot, flags.json), err)
	})
}

func printStatus(out io.Writer, snapshot *admin.Snapshot, json bool) error {
	if json {
		return cli.PrintJSON(out, snapshot)
	}
	screen, now := screenOf(out), time.Now()
	screen.Height = 0
	progress := new(admin.Progress)
	progress.See(now, snapshot)
	_, err := io.WriteString(out, screen.Draw(now, snapshot, progress))
	return err
}

// screenOf returns the colours and the size of w.
func screenOf(w io.Writer) admin.Screen {
	screen := admin.Screen{Colour: cli.Colours(w)}
	if file, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil {
			screen.Width, screen.Height = width, height
		}
	}
	return screen
}

// Escape sequences that draw repeatedly on the alternate screen of a terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	drawAgain   = "\x1b[H"
	clearToEnd  = "\x1b[J"
	nextLine    = "\x1b[K\r\n"
)

// redraw draws text over what was drawn before.
func redraw(out io.Writer, text string) {
	fmt.Fprint(out, drawAgain, strings.ReplaceAll(text, "\n", nextLine), clearToEnd)
}

// untilQuit returns a context that q ends too. stop gives the terminal back.
func untilQuit(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc, stop func()) {
	ctx, cancel = context.WithCancelCause(ctx)
	restore := onKey(os.Stdin, func(key byte) {
		if key == 'q' || key == 'Q' {
			cancel(nil)
		}
	})
	return ctx, cancel, func() {
		restore()
		cancel(nil)
	}
}

// runTop draws until ctx ends. If the leader is lost after the first drawing, it keeps looking for a leader.
func runTop(ctx context.Context, out *os.File, leader *admin.Leader, timeout time.Duration) error {
	found := false
	ctx, cancel, stop := untilQuit(ctx)
	defer stop()
	late := time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })
	progress := new(admin.Progress)
	last := ""
	show := func(s *admin.Snapshot) bool {
		if !found {
			found = true
			late.Stop()
			fmt.Fprint(out, enterScreen)
		}
		now := time.Now()
		progress.See(now, s)
		last = screenOf(out).Draw(now, s, progress)
		redraw(out, last)
		return true
	}
	err := leader.Watch(ctx, true, show, func(err error) {
		if found {
			redraw(out, "looking for the leading controller: "+err.Error()+"\n"+last)
		}
	})
	if found {
		fmt.Fprint(out, leaveScreen)
	}
	if errors.Is(err, context.Canceled) || found && ctx.Err() != nil {
		return nil
	}
	return err
}
