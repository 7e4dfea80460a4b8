// Package packing compresses values that do not fit a cell, with dictionaries trained on the keys of one etcd.
//
// A dictionary has a number and never changes. A packed value names its dictionary by number and checksum, so a gateway
// that knows it can unpack what another one packed; one that does not yet says so. A [Set] packs with its newest
// dictionary.
package packing

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	// MaxDictionaryBytes bounds a dictionary. Each packing begins with the whole of it, so a longer one costs time.
	MaxDictionaryBytes = 8 << 10
	// maxValueBytes bounds what a value may be unpacked to.
	maxValueBytes = 1 << 20
	// level is a good rate for the time that it takes: values are packed on the way of a write.
	level = 4
)

// ErrUnknownDictionary says that a value was packed with a dictionary that is not in the set.
var ErrUnknownDictionary = errors.New("the value was packed with a dictionary that is not known here")

// Set has the dictionaries of one etcd. It is safe for concurrent use.
type Set struct {
	mu     sync.RWMutex
	newest uint32
	known  map[uint32]*dictionary
}

// dictionary is one that is ready for use.
type dictionary struct {
	name             []byte // its number and its checksum, with which packed values begin
	text             []byte
	writers, readers sync.Pool
}

// New makes a set without dictionaries, which packs nothing.
func New() *Set { return &Set{known: make(map[uint32]*dictionary)} }

// Add adds a dictionary under its number, from 1.
func (s *Set) Add(number uint32, text []byte) error {
	if number == 0 || len(text) == 0 {
		return fmt.Errorf("dictionary %d of %d bytes: dictionaries have numbers from 1, and are not empty", number, len(text))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := binary.BigEndian.AppendUint32(binary.AppendUvarint(nil, uint64(number)), crc32.ChecksumIEEE(text))
	s.known[number] = &dictionary{name: name, text: text}
	s.newest = max(s.newest, number)
	return nil
}

// Known returns the numbers of the dictionaries.
func (s *Set) Known() []uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.known))
}

// Pack compresses a value with the newest dictionary. ok is false if there is none.
func (s *Set) Pack(value []byte) (packed string, ok bool) {
	s.mu.RLock()
	d := s.known[s.newest]
	s.mu.RUnlock()
	if d == nil {
		return "", false
	}
	var out bytes.Buffer
	out.Write(d.name)
	w, _ := d.writers.Get().(*flate.Writer)
	if w == nil {
		var err error
		if w, err = flate.NewWriterDict(&out, level, d.text); err != nil {
			return "", false // the level is right
		}
	} else {
		w.Reset(&out)
	}
	defer d.writers.Put(w)
	if _, err := w.Write(value); err != nil {
		return "", false // a buffer takes everything
	}
	if err := w.Close(); err != nil {
		return "", false
	}
	return out.String(), true
}

// Unpack returns the value.
func (s *Set) Unpack(packed string) ([]byte, error) {
	number, n := binary.Uvarint([]byte(packed[:min(len(packed), binary.MaxVarintLen32)]))
	if n <= 0 {
		return nil, errors.New("a packed value does not name its dictionary")
	}
	s.mu.RLock()
	d := s.known[uint32(number)]
	s.mu.RUnlock()
	if d == nil || !strings.HasPrefix(packed, string(d.name)) {
		// DEFLATE would not notice another dictionary of that number.
		return nil, ErrUnknownDictionary
	}
	in := bytes.NewReader([]byte(packed[len(d.name):]))
	r, _ := d.readers.Get().(io.ReadCloser)
	if r == nil {
		r = flate.NewReaderDict(in, d.text)
	} else if err := r.(flate.Resetter).Reset(in, d.text); err != nil {
		return nil, err
	}
	defer d.readers.Put(r)
	value, err := io.ReadAll(io.LimitReader(r, maxValueBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("a packed value is damaged: %w", err)
	case len(value) > maxValueBytes:
		return nil, fmt.Errorf("a packed value has more than %d bytes", maxValueBytes)
	}
	return value, nil
}
