package xdp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// markPin is the file name under which the mark of detours is pinned.
const markPin = mapPin + "mark"

// secretPin is that of the secret of the places of objects.
const secretPin = mapPin + "secret"

// mark tells frames that take a detour from those that came in: see detour.h.
type mark [5]byte

// newMark returns a random mark.
func newMark() (m mark) {
	_, _ = rand.Read(m[:]) // never fails
	return m
}

// secret is a part of the places of objects, so that no client can choose keys with one place: see objects.h.
type secret [2]uint64

// newSecret returns a random secret, of odd numbers.
func newSecret() (s secret) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	for i := range s {
		s[i] = native.Uint64(b[8*i:]) | 1
	}
	return s
}

// keepRandom returns the random constants of the data plane that is pinned in a directory, or pins new ones. All programs
// on one set of tables have the same: those of a port are replaced one after the other, and a frame that the old one at XDP
// marked meets the new one at tc ingress.
func keepRandom(pin string) (m mark, s secret, err error) {
	if m, err = keep(pin, markPin, newMark()); err == nil {
		s, err = keep(pin, secretPin, newSecret())
	}
	return m, s, err
}

// keep returns the value that is pinned under a name, or pins this one.
func keep[T any](pin, name string, fresh T) (T, error) {
	kept, err := kept[T](pin, name)
	if !errors.Is(err, os.ErrNotExist) {
		return kept, err
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(binary.Size(fresh)), MaxEntries: 1,
	})
	if err == nil {
		defer m.Close()
		err = errors.Join(m.Put(uint32(0), fresh), m.Pin(filepath.Join(pin, name)))
	}
	if err != nil {
		return fresh, fmt.Errorf("pinning %s below %s: %w", name, pin, err)
	}
	return fresh, nil
}

// kept returns the value that is pinned under a name.
func kept[T any](pin, name string) (value T, err error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pin, name), readOnly)
	if err != nil {
		return value, fmt.Errorf("%s: %w", filepath.Join(pin, name), err)
	}
	defer m.Close()
	if err := m.Lookup(uint32(0), &value); err != nil {
		return value, errors.Join(staleError(pin), err)
	}
	return value, nil
}
