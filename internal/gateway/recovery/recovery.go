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
