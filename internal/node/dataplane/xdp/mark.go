package xdp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// markPin is the file name under which the mark of detours is pinned.
const markPin = mapPin + "mark"

// mark tells frames that take a detour from those that came in: see detour.h.
type mark [5]byte

// newMark returns a random mark.
func newMark() (m mark) {
	_, _ = rand.Read(m[:]) // never fails
	return m
}

// keepMark returns the mark of the data plane that is pinned in a directory, or pins a new one. All programs on one set
// of tables have the same mark: those of a port are replaced one after the other, and a frame that the old one at XDP
// marked meets the new one at tc ingress.
func keepMark(pin string) (m mark, err error) {
	path := filepath.Join(pin, markPin)
	kept, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		kept, err = ebpf.NewMap(&ebpf.MapSpec{Name: markPin, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(m)), MaxEntries: 1})
		if err == nil {
			err = errors.Join(kept.Put(uint32(0), newMark()), kept.Pin(path))
		}
	}
	if kept != nil {
		defer kept.Close()
	}
	if err != nil {
		return m, fmt.Errorf("keeping the mark of detours below %s: %w", pin, err)
	}
	if err := kept.Lookup(uint32(0), &m); err != nil {
		return m, errors.Join(staleError(pin), err)
	}
	return m, nil
}
