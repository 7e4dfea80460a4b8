// Package callerror says to users why a call failed.
package callerror

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Text returns why a call failed, in a few words: the server's message, or what is wrong with the connection without the
// words of gRPC's transport.
func Text(err error) string {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable:
		return unavailable(s.Message())
	case codes.DeadlineExceeded:
		return "no answer in time"
	}
	return s.Message()
}

// NothingAnswers says that no server listens at an address.
const NothingAnswers = "nothing answers there: is it running?"

// NoAddress says that a name cannot be resolved.
func NoAddress(name string) string { return "the name " + name + " has no address" }

// unavailable explains a message of gRPC's client. Messages of servers are returned as they are.
func unavailable(message string) string {
	switch {
	case strings.Contains(message, "handshake"):
		return message[strings.Index(message, "handshake"):]
	case strings.Contains(message, "server preface"):
		return "whoever answers there expects another kind of connection: is --identity missing, or one too many?"
	case strings.Contains(message, "Error while dialing"):
		if _, lookup, ok := strings.Cut(message, "lookup "); ok {
			host, _, _ := strings.Cut(lookup, " ")
			return NoAddress(strings.TrimSuffix(host, ":"))
		}
		return NothingAnswers
	case strings.HasPrefix(message, "connection error"), strings.HasPrefix(message, "error reading from server"),
		strings.HasPrefix(message, "write tcp"), strings.HasPrefix(message, "read tcp"):
		return "the connection broke"
	}
	return message
}

// BadCertificate reports whether one side of a connection has refused the other's certificate, which another attempt
// does not change.
func BadCertificate(err error) bool {
	s := status.Convert(err)
	if s.Code() != codes.Unavailable {
		return false
	}
	local := strings.Contains(s.Message(), "handshake failed") && strings.Contains(s.Message(), "x509: ")
	_, alert, remote := strings.Cut(s.Message(), "remote error: tls: ")
	return local || remote && strings.Contains(alert, "certificate")
}
