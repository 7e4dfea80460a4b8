// Package recovery keeps one request from ending the process.
package recovery

import (
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Do calls f. If f panics, Do logs the panic with its stack and returns an error with the code Internal.
func Do(what string, f func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			slog.Error("a request panicked: report this as a bug", "request", what, "panic", reason, "stack", string(debug.Stack()))
			err = status.Errorf(codes.Internal, "gateway: %s failed because of a bug in the gateway, whose log has the details", what)
		}
	}()
	return f()
}

// Contain calls f, which is a part of a connection, and reports whether it panicked. It logs a panic with its stack.
func Contain(part, connection string, f func()) (panicked bool) {
	defer func() {
		if reason := recover(); reason != nil {
			panicked = true
			slog.Error("a connection panicked and ends: report this as a bug", "connection", connection, "part", part,
				"panic", reason, "stack", string(debug.Stack()))
		}
	}()
	f()
	return false
}
