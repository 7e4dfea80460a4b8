package chainlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// Snapshot names a complete snapshot. The zero value is the empty keyspace.
type Snapshot struct {
	Index    uint64 `json:"index"`     // of the last entry in it
	LastTerm uint64 `json:"last_term"` // of that entry
	Bank     int    `json:"bank"`
	Pieces   int    `json:"pieces"`
	Checksum uint32 `json:"checksum"`
}

const banks = 2

var errTorn = errors.New("the snapshot was replaced while it was read")

func (l *Log) pieceKey(bank, i int) string { return fmt.Sprintf("%ssnapshot/%d/%d", l.prefix, bank, i) }

func (l *Log) pointerKey() string { return l.prefix + "snapshot" }

// look reads which snapshot is the newest, and the term of the writer that said so.
func (l *Log) look(ctx context.Context) (s Snapshot, term, version uint64, err error) {
	o, err := l.chain.Get(ctx, l.pointerKey())
	if errors.Is(err, client.ErrNotFound) {
		return s, 0, 0, fmt.Errorf("%w (%s)", ErrLost, l.pointerKey())
	}
	if err != nil {
		return s, 0, 0, err
	}
	r, err := decode(o.Value)
	if err == nil {
		err = json.Unmarshal(r.payload, &s)
	}
	if err != nil || r.keyspace != l.id {
		return s, 0, 0, fmt.Errorf("%w (%s is of another keyspace)", ErrLost, l.pointerKey())
	}
	return s, r.term, o.Version, nil
}

// Load has the newest snapshot read and continues the log behind it. loaded: the newest snapshot was ahead of the
// log's next entry. restore may be called again, if the snapshot was replaced while it was read.
func (l *Log) Load(ctx context.Context, restore func(io.Reader) error) (loaded bool, err error) {
	for {
		s, _, _, err := l.look(ctx)
		if err != nil {
			return false, err
		}
		if s.Index < l.at.Next {
			return false, nil
		}
		r := &pieceReader{ctx: ctx, log: l, snapshot: &s}
		err = restore(r)
		if err == nil {
			_, err = io.Copy(io.Discard, r) // compares the checksum
		}
		switch {
		case r.err == nil && err != nil:
			return false, err
		case errors.Is(r.err, errTorn):
			newer, _, _, err := l.look(ctx)
			if err == nil && newer == s {
				err = fmt.Errorf("%w (the snapshot at entry %d is damaged)", ErrLost, s.Index)
			}
			if err != nil {
				return false, err
			}
			continue
		case !errors.Is(r.err, io.EOF):
			return false, r.err
		}
		l.at, l.partial = core.Cursor{Next: s.Index + 1, Term: s.LastTerm}, nil
		return true, nil
	}
}

// pieceReader reads a snapshot from its objects.
type pieceReader struct {
	ctx      context.Context
	log      *Log
	snapshot *Snapshot
	next     int    // the next object
	content  []byte // read, and not taken yet
	checksum uint32
	err      error
}

// Read implements [io.Reader].
func (r *pieceReader) Read(b []byte) (int, error) {
	for len(r.content) == 0 && r.err == nil {
		r.err = r.fetch()
	}
	if len(r.content) == 0 {
		return 0, r.err
	}
	n := copy(b, r.content)
	r.content = r.content[n:]
	return n, nil
}

// fetch reads the next objects.
func (r *pieceReader) fetch() error {
	n := min(readAhead, r.snapshot.Pieces-r.next)
	if n == 0 {
		if r.checksum != r.snapshot.Checksum {
			return errTorn
		}
		return io.EOF
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = r.log.pieceKey(r.snapshot.Bank, r.next+i)
	}
	for _, o := range r.log.chain.GetMany(r.ctx, keys) {
		if errors.Is(o.Err, client.ErrNotFound) {
			return errTorn
		}
		if o.Err != nil {
			return o.Err
		}
		piece, err := decode(o.Value)
		if err != nil || piece.keyspace != r.log.id || piece.index != r.snapshot.Index {
			return errTorn
		}
		r.content = append(r.content, piece.payload...)
	}
	r.checksum = crc32.Update(r.checksum, crc32.IEEETable, r.content)
	r.next += n
	return nil
}

// Save stores a snapshot of everything up to and including an entry, whose term is lastTerm. write writes its content.
// Save may be called beside Append, once at a time.
func (l *Log) Save(ctx context.Context, term, index, lastTerm uint64, write func(io.Writer) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &pieceWriter{ctx: ctx, log: l, term: term, snapshot: Snapshot{
		Index: index, LastTerm: lastTerm, Bank: (l.pointer.Bank + 1) % banks,
	}}
	if err := write(w); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	return l.publish(ctx, w.snapshot, term)
}

// pieceWriter writes a snapshot to its objects, as many at once as a reader reads.
type pieceWriter struct {
	ctx      context.Context
	log      *Log
	term     uint64
	snapshot Snapshot
	content  []byte // not stored yet
}

// Write implements [io.Writer].
func (w *pieceWriter) Write(b []byte) (n int, err error) {
	most := readAhead * w.log.payloadBytes()
	for len(b) > 0 {
		some := b[:min(len(b), most-len(w.content))]
		w.content = append(w.content, some...)
		if n, b = n+len(some), b[len(some):]; len(w.content) == most {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// flush stores what was written.
func (w *pieceWriter) flush() error {
	var keys []string
	var values [][]byte
	s := &w.snapshot
	s.Checksum = crc32.Update(s.Checksum, crc32.IEEETable, w.content)
	for piece := range slices.Chunk(w.content, w.log.payloadBytes()) {
		r := record{keyspace: w.log.id, term: w.term, index: s.Index, payload: piece}
		keys, values = append(keys, w.log.pieceKey(s.Bank, s.Pieces)), append(values, r.encode())
		s.Pieces++
	}
	w.content = w.content[:0]
	if err := w.log.replace(w.ctx, keys, values, w.term); err != nil {
		return fmt.Errorf("object %d of a snapshot: %w", s.Pieces, err)
	}
	return nil
}

// publish makes a snapshot the newest one. The caller holds l.mu.
func (l *Log) publish(ctx context.Context, s Snapshot, term uint64) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	own := record{keyspace: l.id, term: term, payload: text}
	for {
		r, err := l.chain.CAS(ctx, l.pointerKey(), l.version, own.encode())
		if err == nil {
			l.published(s, r.Version)
			return nil
		}
		if !errors.Is(err, client.ErrCASFailed) {
			if err := l.passing(ctx, l.pointerKey(), err); err != nil {
				return err
			}
		}
		found, foundTerm, version, err := l.look(ctx)
		switch {
		case errors.Is(err, ErrLost):
			return err
		case err != nil:
			if err := l.passing(ctx, l.pointerKey(), err); err != nil {
				return err
			}
		case found == s && foundTerm == term: // a try of unknown outcome
			l.published(s, version)
			return nil
		case version != l.version:
			return fmt.Errorf("%w: it published a snapshot", ErrDeposed)
		}
	}
}

func (l *Log) published(s Snapshot, version uint64) {
	l.pointer, l.version = s, version
	l.retained.Store(s.Index)
}

// fencePointer makes the newest snapshot this term's, so that writers of earlier terms cannot publish another one.
func (l *Log) fencePointer(ctx context.Context, term uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		s, found, version, err := l.look(ctx)
		switch {
		case errors.Is(err, ErrLost):
			return err
		case err != nil:
			if err := l.passing(ctx, l.pointerKey(), err); err != nil {
				return err
			}
			continue
		case found > term:
			return ErrDeposed
		}
		l.version = version
		// An earlier writer that publishes at the same time is no reason to give up.
		if err := l.publish(ctx, s, term); !errors.Is(err, ErrDeposed) {
			return err
		}
	}
}
