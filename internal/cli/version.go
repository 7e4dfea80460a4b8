package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// revision is the commit that a program was built from. The Makefile sets it.
var revision string

// Build describes the source and the compiler of a program. `netcraq version --json` prints it.
type Build struct {
	Version  string `json:"version"`            // of the module; "(devel)" if it was built from a work tree
	Revision string `json:"revision,omitempty"` // of the commit, if known
	Modified bool   `json:"modified,omitempty"` // whether the work tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuild returns the description of this program.
func ReadBuild() Build {
	b := Build{Version: "(devel)", Revision: revision, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && b.Revision == "":
			b.Revision = s.Value
		case s.Key == "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String formats the build in one line.
func (b Build) String() string {
	text := ProductName + " " + b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	if b.Modified {
		text += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}

func newVersionCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the build of this program",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return PrintJSON(c.OutOrStdout(), ReadBuild())
			}
			fmt.Fprintln(c.OutOrStdout(), ReadBuild())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
