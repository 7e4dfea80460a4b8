package cli

import (
	"errors"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// LogFormat is the value of --log-format.
type LogFormat struct{ json bool }

// String implements [pflag.Value].
func (l *LogFormat) String() string {
	if l.json {
		return "json"
	}
	return "text"
}

// Set implements [pflag.Value].
func (l *LogFormat) Set(format string) error {
	if format != "text" && format != "json" {
		return errors.New("want text or json")
	}
	l.json = format == "json"
	return nil
}

// Type implements [pflag.Value].
func (*LogFormat) Type() string { return "format" }

// Add adds --log-format.
func (l *LogFormat) Add(f *pflag.FlagSet) { f.Var(l, "log-format", "format of the log: text or json") }

// NewLog is the log of a command that runs until it is stopped.
func NewLog(w io.Writer, verbose bool, format LogFormat) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if format.json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// WarnOpen logs, once at the start of a server, which clients are not authenticated.
func WarnOpen(log *slog.Logger, identity, tags bool) {
	switch {
	case !identity:
		log.Warn("no certificates and no tags: any host that reaches the ports can read, write and operate",
			"to change that", "--identity, and --tags of the controllers")
	case !tags:
		log.Warn("no tags: any host that reaches the data plane can read and write",
			"to change that", "netcraq settings --tags")
	}
}

// WarnVolatile logs, once at the start of a node, that nothing is on a disk.
func WarnVolatile(log *slog.Logger) {
	log.Warn("data is in memory only: if all nodes of a chain fail at the same time, their data is lost",
		"to keep it", "netcraq backup")
}
