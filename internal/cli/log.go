package cli

import (
	"io"
	"log/slog"
)

// NewLog is the log of a command that runs until it is stopped.
func NewLog(w io.Writer, verbose, json bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// WarnOpen logs, once at the start of a server, who is not authenticated.
func WarnOpen(log *slog.Logger, identity, tags bool) {
	switch {
	case !identity:
		log.Warn("no certificates and no tags: whoever reaches the ports may read, write and operate",
			"to change that", "--identity, and --tags of the controllers")
	case !tags:
		log.Warn("no tags: whoever reaches the data plane may read and write", "to change that", "netcraq settings --tags")
	}
}

// WarnVolatile logs, once at the start of a node, that nothing is on a disk.
func WarnVolatile(log *slog.Logger) {
	log.Warn("data is in memory only: what all nodes of a chain lose at the same time is gone", "to keep it", "netcraq backup")
}
