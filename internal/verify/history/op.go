package history

import (
	"fmt"
	"strconv"
)

// Kind is the kind of an operation.
type Kind uint8

// The operations of a client.
const (
	Get Kind = iota
	Put
	Delete
	CAS
	Add
)

// String returns the operation's name.
func (k Kind) String() string { return [...]string{"get", "put", "delete", "cas", "add"}[k] }

// Outcome is the outcome of an operation as its client knows it.
type Outcome uint8

const (
	// Unknown: no answer, or an answer that leaves the effect of the write open.
	Unknown Outcome = iota
	// OK: the operation took effect.
	OK
	// NotFound: a Get found nothing.
	NotFound
	// Failed: a CAS found another version.
	Failed
	// NotCounter: an Add found a value that is not 8 bytes long.
	NotCounter
)

// Op is one operation of one client.
type Op struct {
	Client   int
	Kind     Kind
	Key      string
	Value    string // Put, CAS: the new value
	Expected uint64 // CAS
	Delta    uint64 // Add

	// Call and Return bound the time of the operation, on one clock for all clients. Return is
	// meaningless if the outcome is Unknown.
	Call, Return int64

	Result
}

// Result is the answer to an operation.
type Result struct {
	Outcome Outcome
	Version uint64
	Read    string // Get and Failed: the current value; Add: the new value
	NoValue bool   // Failed: the answer had no value
}

// String returns the operation on one line, for people.
func (o Op) String() string {
	var ask string
	switch o.Kind {
	case Put:
		ask = "(" + show(o.Value) + ")"
	case CAS:
		ask = fmt.Sprintf("(version %d, %s)", o.Expected, show(o.Value))
	case Add:
		ask = fmt.Sprintf("(%d)", int64(o.Delta))
	}
	return fmt.Sprintf("client %d  %s%s -> %s", o.Client, o.Kind, ask, o.answer())
}

func (o Op) answer() string {
	at := " at version " + strconv.FormatUint(o.Version, 10)
	switch o.Outcome {
	case OK:
		if o.Kind == Get || o.Kind == Add {
			return show(o.Read) + at
		}
		return "done" + at
	case NotFound:
		return "nothing" + at
	case Failed:
		if o.NoValue {
			return "failed" + at
		}
		return "failed, found " + show(o.Read) + at
	case NotCounter:
		return "not a counter" + at
	}
	return "unknown"
}

// show formats a value: text as text, a counter as its number.
func show(v string) string {
	if n, ok := counter(v); ok && v[0] < ' ' {
		return strconv.FormatUint(n, 10)
	}
	return strconv.Quote(v)
}
