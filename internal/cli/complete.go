package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeWithin limits the time that a shell waits for names from a cluster.
const completeWithin = time.Second

// planeNames matches the names of data planes in the descriptions of flags.
var planeNames = regexp.MustCompile(`\b(auto|chain|soft|xdp|p4|none)\b`)

// nodeFlags take the name of a node.
var nodeFlags = []string{"node", "from", "to"}

// completeAll lets shells complete names of nodes and data planes in all commands.
func completeAll(c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeAll(sub)
	}
	if flag := c.Flags().Lookup("plane"); flag != nil {
		known := slices.Compact(slices.Sorted(slices.Values(planeNames.FindAllString(flag.Usage, -1))))
		complete(c, flag.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return known, cobra.ShellCompDirectiveNoFileComp
		})
	}
	// the command names no cluster
	if c.Flags().Lookup("controllers") == nil || c.Flags().Lookup("cluster") == nil {
		return
	}
	for _, name := range nodeFlags {
		if c.Flags().Lookup(name) != nil {
			complete(c, name, nodeNames)
		}
	}
	if strings.Contains(c.Use, "NODE") && c.ValidArgsFunction == nil {
		c.ValidArgsFunction = nodeNames
	}
}

func complete(c *cobra.Command, flag string, names cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, names); err != nil {
		panic(err) // the flag was looked up just before, and has none yet
	}
}

// nodeNames returns the nodes of the cluster that the command line names so far.
func nodeNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var cluster ClusterFlags
	cluster.File, _ = c.Flags().GetString("cluster")
	cluster.Controllers, _ = c.Flags().GetStringSlice("controllers")
	cluster.identity, _ = c.Flags().GetString("identity")
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	m, err := cluster.Present(ctx, 0)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, n := range m.Nodes {
		if !slices.Contains(args, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
