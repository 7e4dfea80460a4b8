package p4

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// Switch is a target that runs the program. Requests may come from several goroutines.
type Switch interface {
	// Do makes changes and then reads, with no frame in between: all changes of tables at once.
	Do(r *Request) error
	// Pause lets no frame in, until it is called again with false. Calls count: the last false ends it.
	Pause(paused bool) error
	// Try hands in one frame and returns what leaves because of it, and by which port. Nothing else may be under way.
	Try(port int, frame []byte) ([]Left, error)
	// Put hands in one frame, as if it had come by the port.
	Put(port int, frame []byte) error
	// SetClock stops the clock of the leases at a time; 0 makes it run again.
	SetClock(now uint64) error
	// ForCPU are the frames that the program sent to the CPU port. It is closed when the switch is gone.
	ForCPU() <-chan Left
	// Gone is closed when the switch is.
	Gone() <-chan struct{}
	// Err says why the switch is gone.
	Err() error
	Close() error
}

// Left is a frame that left the switch, with the target's own header in front where it went to the CPU.
type Left struct {
	Port  int
	Frame []byte
}

// Ports of the programs, see p4/target.p4. Those of network interfaces have the numbers below MostPorts.
const (
	MostPorts = 12
	PortAgain = 12 // copies frames, and hands the copies in
	PortCPU   = 13 // the control plane
	PortHost  = 14 // the host's network stack
	portDrop  = 15

	// MostCopies are made of a frame at [PortAgain].
	MostCopies = wire.MaxChain
)

// Address is an IPv4 address as a field of a table.
func Address(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(binary.BigEndian.Uint32(b[:]))
}

// MAC is an Ethernet address as a field of a table.
func MAC(b [6]byte) (v uint64) {
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}

// Request is a group of changes and reads, by the names that the program's P4Info has. Tables change before arrays do;
// if a change fails, those after it are not made, and none of those of tables.
type Request struct {
	changes  []Change
	accesses []Access
	steps    []asked
}

// Change is one of a table.
type Change struct {
	Kind  ChangeKind
	Entry Entry
}

// ChangeKind is what becomes of an entry.
type ChangeKind int

// Kinds of changes.
const (
	Put        ChangeKind = iota // the entry is there, in place of one with the same key
	Remove                       // no entry has the key
	SetDefault                   // keys without an entry have the action
)

// Access is a read or a write of places in a row, in an array of registers or counters.
type Access struct {
	Array  string
	First  int
	Count  int
	Values []uint64 // to write; nil: read
	Sparse bool     // visit only what is not zero
	Visit  func(index int, value uint64)
}

// Changes are those of tables.
func (r *Request) Changes() []Change { return r.changes }

// Accesses are those of arrays, in order.
func (r *Request) Accesses() []Access { return r.accesses }

// Entry is one line of a table. The fields of its key are in the order of the program.
type Entry struct {
	Table  string
	Match  []uint64
	Action string
	Args   []Arg
}

// Arg is an action's argument.
type Arg struct {
	Name  string
	Value uint64
}

// Insert puts an entry into its table, in place of one with the same key.
func (r *Request) Insert(e Entry) { r.changes = append(r.changes, Change{Put, e}) }

// Default sets the action of keys without an entry. The entry's key is ignored.
func (r *Request) Default(e Entry) { r.changes = append(r.changes, Change{SetDefault, e}) }

// Delete takes out the entry with the key, if it is there.
func (r *Request) Delete(e Entry) { r.changes = append(r.changes, Change{Remove, e}) }

// Write sets places of an array from an index on.
func (r *Request) Write(array string, first int, values ...uint64) {
	r.accesses = append(r.accesses, Access{Array: array, First: first, Count: len(values), Values: values})
}

// Read fills values from an array.
func (r *Request) Read(array string, first int, values []uint64) {
	r.Visit(array, first, len(values), func(i int, v uint64) { values[i-first] = v })
}

// Visit reads places of an array from an index on.
func (r *Request) Visit(array string, first, count int, visit func(index int, value uint64)) {
	r.accesses = append(r.accesses, Access{Array: array, First: first, Count: count, Visit: visit})
}

// Scan visits the places of an array that are not zero, from an index on.
func (r *Request) Scan(array string, first, count int, visit func(index int, value uint64)) {
	r.accesses = append(r.accesses, Access{Array: array, First: first, Count: count, Sparse: true, Visit: visit})
}

// ErrGone is the cause of errors of a switch that has ended.
var ErrGone = errors.New("the switch is gone")
