// Package packing compresses values that do not fit a cell, with dictionaries trained on the keys of one etcd.
//
// A dictionary has a number and never changes. A packed value names its dictionary by number and checksum, so a gateway
// that knows it can unpack what another one packed; one that does not yet says so. A [Set] packs with its newest
// dictionary.
package packing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// MaxDictionaryBytes bounds a dictionary. Each packing begins with the whole of it, so a longer one costs time.
	MaxDictionaryBytes = 8 << 10
	// maxValueBytes bounds what a value may be unpacked to.
	maxValueBytes = 1 << 20
)

// ErrUnknownDictionary says that a value was packed with a dictionary that is not in the set.
var ErrUnknownDictionary = errors.New("the value was packed with a dictionary that is not known here")

// Set has the dictionaries of one etcd. It is safe for concurrent use.
type Set struct {
	mu     sync.RWMutex
	newest uint32
	known  map[uint32]*dictionary
}

// dictionary is one that is ready for use, by any number of goroutines.
type dictionary struct {
	name   string // its number and its checksum, with which packed values begin
	packer *zstd.Encoder
	opener *zstd.Decoder
}

func newDictionary(number uint32, text []byte) (*dictionary, error) {
	// The fastest level: values are packed on the way of a write. The name tells dictionaries apart, so that the frame
	// needs no checksum of its own.
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(number, text), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	opener, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(number, text), zstd.WithDecoderMaxMemory(maxValueBytes))
	if err != nil {
		return nil, err
	}
	name := binary.BigEndian.AppendUint32(binary.AppendUvarint(nil, uint64(number)), crc32.ChecksumIEEE(text))
	return &dictionary{name: string(name), packer: packer, opener: opener}, nil
}

// New makes a set without dictionaries, which packs nothing.
func New() *Set { return &Set{known: make(map[uint32]*dictionary)} }

// Add adds a dictionary under its number, from 1.
func (s *Set) Add(number uint32, text []byte) error {
	if number == 0 || len(text) == 0 {
		return fmt.Errorf("dictionary %d of %d bytes: dictionaries have numbers from 1, and are not empty", number, len(text))
	}
	d, err := newDictionary(number, text)
	if err != nil {
		return fmt.Errorf("dictionary %d of %d bytes: %w", number, len(text), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[number] = d
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
	return string(d.packer.EncodeAll(value, []byte(d.name))), true
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
	if d == nil || !strings.HasPrefix(packed, d.name) {
		return nil, ErrUnknownDictionary
	}
	value, err := d.opener.DecodeAll([]byte(packed[len(d.name):]), nil)
	if err != nil {
		return nil, fmt.Errorf("a packed value is damaged, or has more than %d bytes: %w", maxValueBytes, err)
	}
	return value, nil
}
