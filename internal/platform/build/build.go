// Package build describes the source and the compiler of this program.
package build

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// revision is the commit that a program was built from. The Makefile sets it.
var revision string

// unreleased is the version of a program that was built from a work tree.
const unreleased = "(devel)"

// shownDigits is how many digits of a commit are shown in a table.
const shownDigits = 12

// Info describes a program. `netcraq version --json` prints it.
type Info struct {
	Version  string `json:"version"`            // of the module; "(devel)" if it was built from a work tree
	Revision string `json:"revision,omitempty"` // of the commit, if known
	Modified bool   `json:"modified,omitempty"` // whether the work tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns the description of this program.
func Read() Info {
	b := Info{Version: unreleased, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
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

// String formats the description in one line.
func (b Info) String() string {
	text := b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	if b.Modified {
		text += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}

// Name is what distinguishes programs of two sources: the release, or without one the commit.
func (b Info) Name() string {
	commit, suffix, dirty := strings.Cut(b.Revision, "-")
	switch {
	case b.Version != unreleased && b.Version != "":
		return b.Version
	case commit == "":
		return unreleased
	case dirty:
		suffix = "-" + suffix
	case b.Modified:
		suffix = "-dirty"
	}
	return commit[:min(len(commit), shownDigits)] + suffix
}

// Name is [Info.Name] of this program.
func Name() string { return Read().Name() }

// Order is what to do about processes of other versions.
const Order = "upgrade nodes first, then controllers, then gateways and members, one process at a time (docs/upgrades.md)"

// Other says that a process has another version than this program. It returns nothing if both are the same. A process that
// names no version is older than all that do.
func Other(version string) string {
	switch version {
	case Name():
		return ""
	case "":
		return fmt.Sprintf("it is older than this program, %s, and names no version", Name())
	}
	return fmt.Sprintf("its version is %s, that of this program %s", version, Name())
}
