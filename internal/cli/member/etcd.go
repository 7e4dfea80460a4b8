package member

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/member/program"
)

// questions are the first words that are for a running server, and what they do.
var questions = map[string]string{
	"off":    "End fast reads, until `netcraq etcd on` or the next start of the server",
	"on":     "Take part in fast reads again",
	"status": "Show whether fast reads are on",
}

func newEtcdCommand() *cobra.Command {
	run := func(args []string) { program.Main(append([]string{cli.ProductName + " etcd"}, args...)) }
	c := &cobra.Command{
		Use:   "etcd [etcd's flags] [--chain-controllers ADDR,...]",
		Short: "Run an etcd server that answers linearizable reads through a chain",
		// etcd parses its flags itself, in the style of Go's flag package.
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && questions[args[0]] != "" {
				q := newQuestion(args[0])
				q.SetArgs(args[1:])
				q.SetOut(c.OutOrStdout())
				q.SetErr(c.ErrOrStderr())
				return q.ExecuteContext(c.Context())
			}
			run(args)
			return nil
		},
		ValidArgs: slices.Sorted(maps.Keys(questions)),
	}
	c.SetHelpFunc(func(*cobra.Command, []string) { run([]string{"--help"}) })
	return c
}

// newQuestion makes the command that asks a running server.
func newQuestion(what string) *cobra.Command {
	var dir string
	var json bool
	c := &cobra.Command{
		Use:           cli.ProductName + " etcd " + what,
		Short:         questions[what],
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := program.Ask(c.Context(), dir, what)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if json {
				return cli.PrintJSON(out, s)
			}
			fmt.Fprintf(out, "state: %s\n", s.State)
			if s.View != "" {
				fmt.Fprintf(out, "view: %s\n", s.View)
			}
			if len(s.Out) > 0 {
				fmt.Fprintf(out, "members that do not take part: %s\n", strings.Join(s.Out, ", "))
			}
			fmt.Fprintf(out, "version: %s\n", s.Version)
			for _, name := range slices.Sorted(maps.Keys(s.Others)) {
				fmt.Fprintf(out, "version of %s: %s\n", name, s.Others[name])
			}
			fmt.Fprintf(out, "this server reads through the chain: %v\n", s.Reading)
			fmt.Fprintf(out, "answers wait for the chain: %v\n", !s.Free)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "data-dir", cmp.Or(os.Getenv("ETCD_DATA_DIR"), "default.etcd"), "data `directory` of the server")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}
