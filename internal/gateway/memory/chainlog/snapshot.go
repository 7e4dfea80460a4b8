package chainlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/netcraq/netcraq/client"
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
	if err != nil || r.keyspace != l.meta.ID {
		return s, 0, 0, fmt.Errorf("%w (%s is of another keyspace)", ErrLost, l.pointerKey())
	}
	return s, r.term, o.Version, nil
}

// Load returns the newest snapshot and continues the log behind it. It returns nil if the newest snapshot is not ahead
// of the log's next entry.
func (l *Log) Load(ctx context.Context) (io.Reader, error) {
	for {
		s, _, _, err := l.look(ctx)
		if err != nil {
			return nil, err
		}
		if s.Index < l.next {
			return nil, nil
		}
		content, err := l.pieces(ctx, &s)
		if errors.Is(err, errTorn) {
			newer, _, _, err := l.look(ctx)
			if err == nil && newer == s {
				err = fmt.Errorf("%w (the snapshot at entry %d is damaged)", ErrLost, s.Index)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		l.next, l.lastTerm, l.partial = s.Index+1, s.LastTerm, nil
		return bytes.NewReader(content), nil
	}
}

// pieces reads the objects of a snapshot.
func (l *Log) pieces(ctx context.Context, s *Snapshot) ([]byte, error) {
	var content []byte
	for begin := 0; begin < s.Pieces; begin += readAhead {
		keys := make([]string, min(readAhead, s.Pieces-begin))
		for i := range keys {
			keys[i] = l.pieceKey(s.Bank, begin+i)
		}
		for _, o := range l.chain.GetMany(ctx, keys) {
			if errors.Is(o.Err, client.ErrNotFound) {
				return nil, errTorn
			}
			if o.Err != nil {
				return nil, o.Err
			}
			r, err := decode(o.Value)
			if err != nil || r.keyspace != l.meta.ID || r.index != s.Index {
				return nil, errTorn
			}
			content = append(content, r.payload...)
		}
	}
	if crc32.ChecksumIEEE(content) != s.Checksum {
		return nil, errTorn
	}
	return content, nil
}

// Save stores a snapshot of everything up to and including an entry, whose term is lastTerm. It may be called beside
// Append, once at a time.
func (l *Log) Save(ctx context.Context, term, index, lastTerm uint64, content []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.payloadBytes()
	s := Snapshot{
		Index: index, LastTerm: lastTerm, Bank: (l.pointer.Bank + 1) % banks,
		Pieces: (len(content) + room - 1) / room, Checksum: crc32.ChecksumIEEE(content),
	}
	for begin := 0; begin < s.Pieces; begin += readAhead {
		var keys []string
		var values [][]byte
		for i := begin; i < min(begin+readAhead, s.Pieces); i++ {
			piece := content[i*room : min((i+1)*room, len(content))]
			r := record{keyspace: l.meta.ID, term: term, index: index, payload: piece}
			keys, values = append(keys, l.pieceKey(s.Bank, i)), append(values, r.encode())
		}
		if err := l.replace(ctx, keys, values, term); err != nil {
			return fmt.Errorf("a snapshot of %d objects: %w", s.Pieces, err)
		}
	}
	return l.publish(ctx, s, term)
}

// publish makes a snapshot the newest one. The caller holds l.mu.
func (l *Log) publish(ctx context.Context, s Snapshot, term uint64) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	own := record{keyspace: l.meta.ID, term: term, payload: text}
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
