// Package driver runs a gateway of a keyspace on disks: it performs the actions of a [core.Replica] and of a
// [core.Recovery] with a disk, the chain, the controllers' record and the other gateways.
package driver

import (
	"context"
	"errors"
	"io"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// Errors of the interfaces, to compare with errors.Is. Any other error says that it is not known whether the call took
// effect.
var (
	// ErrDeposed: a later writer has the log, or it is sealed.
	ErrDeposed = errors.New("a later writer has the log")
	// ErrLost: the chain does not have an object of the log.
	ErrLost = errors.New("the chain has lost the log")
	// ErrTooLarge: the entries do not fit into the ring, or one is longer than Log.MaxPayload.
	ErrTooLarge = errors.New("the entries are too large for the log")
	// ErrRefused: the other gateway has not what it was asked for, or is not the one that was named.
	ErrRefused = errors.New("the other gateway refuses")
)

// Gateway is a gateway of the keyspace, with the disk that it has now.
type Gateway struct {
	Disk    core.Disk
	Member  string // its name, from which Disk.Name is made
	Address string // at which the other gateways reach it: host:port
}

// State is the value of the keyspace's record.
type State struct {
	core.Record
	Gateways []Gateway // sorted by Member, at most one for each
}

// Record is the keyspace's record in the controllers' etcd.
type Record interface {
	// Read returns the record with its version. Before the first Swap it is empty, and the version 0.
	Read(ctx context.Context) (s State, version uint64, err error)
	// Swap replaces the record if its version is version. The new one is higher. swapped is false without an error if
	// the record had another version.
	Swap(ctx context.Context, version uint64, s State) (now uint64, swapped bool, err error)
	// Watch calls changed with the present record and with later ones, until ctx ends or the connection fails. It may
	// leave out records that were replaced meanwhile. changed does not wait.
	Watch(ctx context.Context, changed func(s State, version uint64)) error
}

// Cell is an object of an era's ring.
type Cell struct {
	core.Cell
	Version uint64 // of the object, for Seal
	Payload []byte // of the entry, as Write got it
}

// Log is the logs of a keyspace's eras in the chain, each a ring of objects with names of their own. Its methods may be
// called side by side.
type Log interface {
	// Cells reads the cells of up to n entries from index on, and at least the first. A cell whose object the chain does
	// not have is Lost. The error says that the chain did not answer.
	Cells(ctx context.Context, era, index uint64, n int) ([]Cell, error)
	// Seal writes a seal of a term into the cell of an index, if its object has a version. sealed is false without an
	// error if it had another version.
	Seal(ctx context.Context, era, index, term, version uint64) (sealed bool, err error)
	// Make makes the objects of an era's log that do not exist, without an entry. A reader takes them for entry 0, so
	// first is only what the log's description tells people.
	Make(ctx context.Context, era, first uint64) error
	// Remove removes the objects of an era's log that exist.
	Remove(ctx context.Context, era uint64) error
	// Fence does one step of [core.Cursor.Fence] with the cell of at.Next: it reads it, and for [core.WriteCell] writes an
	// entry of the term without a payload, if the cell has not changed.
	Fence(ctx context.Context, era, term uint64, at core.Cursor) (core.Step, error)
	// Write writes a writer's next entries, from index on, until all are in the log by [core.Judge]. The caller calls it
	// for one run of entries after the other, with [core.Fits]. The errors are ErrDeposed, ErrLost and ErrTooLarge; after
	// another one the entries may be in the log.
	Write(ctx context.Context, era, term, index uint64, payloads [][]byte) error
	// Ring is the number of a ring's objects.
	Ring() uint64
	// MaxPayload is the most bytes of one entry's payload.
	MaxPayload() int
}

// Content is the content of a disk, or the beginning of it up to a position: a snapshot and the entries behind it. Data
// is opaque to those who carry it, and may have gigabytes. Who takes a Content closes Data.
type Content struct {
	Last core.Position
	Data io.ReadCloser
}

// Pushed is entries of an era's log, from First on, that their writer hands over: see [core.Replica.Pushed].
type Pushed struct {
	Era, Term, First uint64
	Payloads         [][]byte // at least one; they do not change any more
	Counted          uint64   // up to where entries count: see [core.Replica.Tell]
}

// report is what the entries tell.
func (p *Pushed) report() core.Report {
	return core.Report{Era: p.Era, Log: p.Last(), Counted: p.Counted}
}

// Last is the index of the last entry.
func (p *Pushed) Last() uint64 { return p.First + uint64(len(p.Payloads)) - 1 }

// Handler answers calls of other gateways. It is safe for concurrent use.
type Handler interface {
	// Reported is [core.Replica.Reported].
	Reported(from core.Disk, r core.Report)
	// Pushed is [core.Replica.Pushed].
	Pushed(from core.Disk, p Pushed)
	// Ask is [core.Replica.Ask]. d is the disk that answers.
	Ask(ctx context.Context, era uint64) (d core.Disk, a core.Answer, err error)
	// Install is [core.Replica.Install]. It reads content to its end before it returns.
	Install(ctx context.Context, base core.Position, content io.Reader) (d core.Disk, a core.Answer, err error)
	// Take returns the whole content of the own disk.
	Take(ctx context.Context) (Content, error)
	// Fetch returns the state of an era at an entry that counts, of at least index; ErrRefused if it is not here.
	Fetch(ctx context.Context, era, index uint64) (Content, error)
}

// Peers calls other gateways of the same keyspace.
type Peers interface {
	// Report hands a report over, or loses it. It does not wait for the other gateway.
	Report(to Gateway, from core.Disk, r core.Report)
	// Push hands entries over, or loses them and reports that the log has them. It does not wait for the other gateway.
	Push(to Gateway, from core.Disk, p Pushed)
	Ask(ctx context.Context, to Gateway, era uint64) (core.Disk, core.Answer, error)
	// Install reads content to its end, or as far as the other gateway takes it.
	Install(ctx context.Context, to Gateway, base core.Position, content io.Reader) (core.Disk, core.Answer, error)
	Take(ctx context.Context, to Gateway) (Content, error)
	Fetch(ctx context.Context, to Gateway, era, index uint64) (Content, error)
}
