// Package conformance tests the clients in Go, Python and C alike: README.md in clients says what each scenario shows.
//
// A scenario is a script of nodes (what they do with the messages that they get) and a list of operations. A driver in
// each language executes the operations: it reads one a line, such as "put key=6b value=76", and writes a line of JSON
// with the result for each. The driver of the Go client is in this package. The scenarios of a real cluster have nodes on
// sockets instead of scripts.
package conformance

// Outcome is the result of an operation, as a driver writes it.
type Outcome struct {
	// Errors are the kinds of the error and of its causes: "outcome_unknown", then "timeout", then "busy".
	Errors []string `json:"errors,omitempty"`
	Text   string   `json:"text,omitempty"` // of the error

	Value        string `json:"value,omitempty"` // hexadecimal
	ValueUnknown bool   `json:"value_unknown,omitempty"`
	Counter      int64  `json:"counter,omitempty"`
	Version      uint64 `json:"version,omitempty"`
	Node         string `json:"node,omitempty"`
	Epoch        uint32 `json:"epoch,omitempty"`
	Attempts     int    `json:"attempts,omitempty"`
}
