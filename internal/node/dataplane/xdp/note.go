package xdp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// notePin is the file name under which an agent's note is pinned: it lives exactly as long as the tables beside it.
const notePin = mapPin + "note"

// noteBytes is the longest note.
const noteBytes = 1020

// note is how it is stored: an update of one entry leaves the old one or the new one, never half of it.
type note struct {
	Length uint32
	Text   [noteBytes]byte
}

// Remember keeps a note for the next process that opens the plane, in place of the last one. A plane without pins
// forgets it.
func (p *Plane) Remember(text []byte) error {
	if p.pin == "" {
		return nil
	}
	n := note{Length: uint32(len(text))}
	if copy(n.Text[:], text) < len(text) {
		return fmt.Errorf("a note has at most %d bytes, not %d", noteBytes, len(text))
	}
	path := filepath.Join(p.pin, notePin)
	m, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		m, err = ebpf.NewMap(&ebpf.MapSpec{Name: notePin, Type: ebpf.Hash, KeySize: 4, ValueSize: 4 + noteBytes, MaxEntries: 1})
		if err == nil {
			err = m.Put(uint32(0), &n)
		}
		if err == nil {
			err = m.Pin(path)
		}
	} else if err == nil {
		err = m.Put(uint32(0), &n)
	}
	if m != nil {
		defer m.Close()
	}
	if err != nil {
		return fmt.Errorf("keeping a note below %s: %w", p.pin, err)
	}
	return nil
}

// Recall returns the note that is kept with the data plane pinned in a directory; nil for none.
func Recall(pin string) ([]byte, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pin, notePin), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the note below %s: %w", pin, err)
	}
	defer m.Close()
	var n note
	if err := m.Lookup(uint32(0), &n); err != nil || n.Length > noteBytes {
		return nil, errors.Join(staleError(pin), err)
	}
	return n.Text[:n.Length], nil
}
