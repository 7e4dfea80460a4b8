package p4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
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
	PortCPU   = 13 // the control plane
	PortHost  = 14 // the host's network stack
	portDrop  = 15
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

// Request is a group of changes and reads. Tables change before registers do; if a change fails, those after it are not
// made, and none of those of tables.
type Request struct {
	entries []string // changes of tables
	lines   []string // the others, and reads
	reads   []*read
}

type read struct {
	line   int
	sparse bool
	into   func(index int, value uint64)
	first  int
}

// Entry is one line of a table. Fields and arguments are numbers in the order of the program.
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
func (r *Request) Insert(e Entry) {
	var b strings.Builder
	b.WriteString("add " + e.Table + " match")
	e.match(&b)
	e.action(&b)
	r.entries = append(r.entries, b.String())
}

// Default sets the action of keys without an entry. The entry's key is ignored.
func (r *Request) Default(e Entry) {
	var b strings.Builder
	b.WriteString("default " + e.Table)
	e.action(&b)
	r.entries = append(r.entries, b.String())
}

// Delete takes out the entry with the key.
func (r *Request) Delete(e Entry) {
	var b strings.Builder
	b.WriteString("del " + e.Table + " match")
	e.match(&b)
	r.entries = append(r.entries, b.String())
}

func (e *Entry) action(b *strings.Builder) {
	b.WriteString(" action " + e.Action)
	for _, a := range e.Args {
		fmt.Fprintf(b, " %s %#x", a.Name, a.Value)
	}
}

func (e *Entry) match(b *strings.Builder) {
	for _, m := range e.Match {
		fmt.Fprintf(b, " %#x", m)
	}
}

// Write sets registers of an array from an index on.
func (r *Request) Write(array string, first int, values ...uint64) {
	var b strings.Builder
	fmt.Fprintf(&b, "write %s %d", array, first)
	for _, v := range values {
		fmt.Fprintf(&b, " %x", v)
	}
	r.add(b.String())
}

// Read fills values from an array.
func (r *Request) Read(array string, first int, values []uint64) {
	r.reads = append(r.reads, &read{line: len(r.lines), first: first, into: func(i int, v uint64) { values[i-first] = v }})
	r.add(fmt.Sprintf("read %s %d %d", array, first, len(values)))
}

// Scan visits the registers of an array that are not zero, from an index on.
func (r *Request) Scan(array string, first, count int, visit func(index int, value uint64)) {
	r.reads = append(r.reads, &read{line: len(r.lines), sparse: true, into: visit})
	r.add(fmt.Sprintf("scan %s %d %d", array, first, count))
}

func (r *Request) add(line string) { r.lines = append(r.lines, line) }

// ErrGone is the cause of errors of a switch that has ended.
var ErrGone = errors.New("the switch is gone")
