package chainlog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// ErrUsed: the log that is to be made for an era has entries.
var ErrUsed = errors.New("the log has entries already")

var _ driver.Log = (*Eras)(nil)

// Eras is the logs of the eras of a keyspace on disks. It implements [driver.Log].
type Eras struct {
	chain   *client.Client
	near    objects.Nearby // nil: all reads use the network
	prefix  string
	id      uint64
	entries int

	mu         sync.Mutex
	valueBytes int // 0: not known yet

	writing sync.Mutex
	era     uint64  // that of writer
	writer  *writer // nil: the next one knows no versions
}

// NewEras returns the logs of the keyspace with a name and a number. near may be nil. All its gateways must give the
// same length of the rings; 0: [DefaultEntries].
func NewEras(chain *client.Client, near objects.Nearby, name string, id uint64, entries int) *Eras {
	if entries == 0 {
		entries = DefaultEntries
	}
	return &Eras{chain: chain, near: near, prefix: "keyspace/" + name + "/", id: id, entries: entries}
}

func (e *Eras) ring(era uint64) *ring {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &ring{
		chain: e.chain, near: e.near, prefix: fmt.Sprintf("%s%d/", e.prefix, era), id: e.id, entries: e.entries,
		valueBytes: e.valueBytes,
	}
}

// Ring implements [driver.Log].
func (e *Eras) Ring() uint64 { return uint64(e.entries) }

// MaxPayload implements [driver.Log]. It is 0 before the first Fence, which finds it out.
func (e *Eras) MaxPayload() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.valueBytes-headerBytes)
}

// probe finds out how long values may be, once.
func (e *Eras) probe(ctx context.Context) error {
	if e.MaxPayload() > 0 {
		return nil
	}
	r := e.ring(0)
	if err := r.probe(ctx, e.prefix+"probe"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.valueBytes = r.valueBytes
	return nil
}

// Cells implements [driver.Log].
func (e *Eras) Cells(ctx context.Context, era, index uint64, n int) ([]driver.Cell, error) {
	r := e.ring(era)
	n = max(1, min(n, r.entries))
	cells := make([]driver.Cell, 0, n)
	for i, o := range r.get(ctx, index, n) {
		found, err := r.decode(r.slot(index+uint64(i)), &o)
		switch {
		case errors.Is(err, ErrLost):
			cells = append(cells, driver.Cell{Cell: core.Cell{Lost: true}})
		case err != nil && i == 0:
			return nil, err
		case err != nil:
			return cells, nil
		default:
			cells = append(cells, driver.Cell{Cell: found.cell(), Version: o.Version, Payload: found.payload})
		}
	}
	return cells, nil
}

// Seal implements [driver.Log].
func (e *Eras) Seal(ctx context.Context, era, index, term, version uint64) (sealed bool, err error) {
	r := e.ring(era)
	return r.swap(ctx, index, version, &record{keyspace: e.id, term: term, index: index, flags: flagSeal})
}

// swap replaces an object, if it has a version.
func (r *ring) swap(ctx context.Context, index, version uint64, own *record) (swapped bool, err error) {
	if version == 0 {
		return false, fmt.Errorf("%w: entry %d would be a new object", ErrLost, index)
	}
	_, err = r.chain.CAS(ctx, r.entryKey(r.slot(index)), version, own.encode())
	if errors.Is(err, client.ErrCASFailed) {
		return false, nil
	}
	return err == nil, err
}

// Fence implements [driver.Log].
func (e *Eras) Fence(ctx context.Context, era, term uint64, at core.Cursor) (core.Step, error) {
	if err := e.probe(ctx); err != nil {
		return core.ReadOn, err
	}
	r := e.ring(era)
	o := r.get(ctx, at.Next, 1)[0]
	found, err := r.decode(r.slot(at.Next), &o)
	if err != nil {
		return core.ReadOn, err
	}
	step := at.Fence(term, found.cell())
	if step == core.WriteCell {
		_, err = r.swap(ctx, at.Next, o.Version, &record{keyspace: e.id, term: term, index: at.Next, flags: flagFence})
	}
	return step, err
}

// Write implements [driver.Log].
func (e *Eras) Write(ctx context.Context, era, term, index uint64, payloads [][]byte) error {
	if len(payloads) > e.entries {
		return fmt.Errorf("%w: %d entries, and the log has %d", ErrTooLarge, len(payloads), e.entries)
	}
	values, most := make([][]byte, len(payloads)), e.MaxPayload()
	for i, payload := range payloads {
		if len(payload) > most {
			return fmt.Errorf("%w: an entry of %d bytes, and at most %d are possible", ErrTooLarge, len(payload), most)
		}
		r := record{keyspace: e.id, term: term, index: index + uint64(i), payload: payload}
		values[i] = r.encode()
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	if w := e.writer; w == nil || e.era != era || w.term != term {
		e.era = era
		e.writer = &writer{ring: e.ring(era), term: term, versions: make([]uint64, e.entries)}
	}
	err := e.writer.write(ctx, index, values)
	if err != nil {
		e.writer = nil
	}
	return err
}
