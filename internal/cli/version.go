package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/platform/build"
)

// VersionLine is what `netcraq version` prints.
func VersionLine() string { return ProductName + " " + build.Read().String() }

func newVersionCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the build of this program",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return PrintJSON(c.OutOrStdout(), build.Read())
			}
			fmt.Fprintln(c.OutOrStdout(), VersionLine())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
