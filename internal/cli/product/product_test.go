package product

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/cli"
)

// flagType is what a flag's help names the type of its value: back-quotes in the help name it.
var flagType = regexp.MustCompile(`^[A-Za-z0-9=:./-]{0,20}$`)

var printsJSON = regexp.MustCompile(`^print (one )?JSON`)

// TestFlagsMeanTheSame: --json and --log-format are the same everywhere, no word of a help became a type, and usage
// lines have their flags before the arguments after --.
func TestFlagsMeanTheSame(t *testing.T) {
	seen := make(map[string]int)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if _, after, found := strings.Cut(c.UseLine(), " -- "); found && strings.Contains(after, "[flags]") {
			t.Errorf("the usage has flags behind --: %s", c.UseLine())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			if !flagType.MatchString(name) {
				t.Errorf("%s: the type of --%s is %q", c.CommandPath(), f.Name, name)
			}
			seen[f.Name]++
			switch f.Name {
			case "json":
				if kind := f.Value.Type(); kind != "bool" || !printsJSON.MatchString(usage) {
					t.Errorf("%s: --json has the type %s: %s", c.CommandPath(), kind, usage)
				}
			case "log-format":
				if kind := f.Value.Type(); kind != new(cli.LogFormat).Type() {
					t.Errorf("%s: --log-format has the type %s: %s", c.CommandPath(), kind, usage)
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cli.ProductRoot(Commands()...))
	if seen["json"] < 10 || seen["log-format"] < 4 {
		t.Errorf("commands have --json %d times, --log-format %d times", seen["json"], seen["log-format"])
	}
}

// TestCommandsAreGrouped: help lists every command of the product below a title.
func TestCommandsAreGrouped(t *testing.T) {
	root := cli.ProductRoot(Commands()...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion", "help", "version":
		default:
			if c.GroupID == "" {
				t.Errorf("%s has no group", c.Name())
			}
		}
	}
	var out strings.Builder
	root.SetOut(&out)
	if err := root.Help(); err != nil {
		t.Fatal(err)
	}
	for _, g := range root.Groups() {
		if !strings.Contains(out.String(), "\n"+g.Title+"\n") {
			t.Errorf("help does not have %q:\n%s", g.Title, &out)
		}
	}
	if len(root.Groups()) < 4 {
		t.Errorf("%d groups", len(root.Groups()))
	}
}
