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
