package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/netcraq/netcraq/wire"
)

// reader reads a snapshot and believes nothing of it: lengths are bounded before memory is taken.
type reader struct {
	in     *bufio.Reader
	sum    hash.Hash // SHA-256 of the bytes before the present part
	header Header
	totals Totals
	buffer []byte
}

func newReader(in io.Reader) (*reader, error) {
	r := &reader{in: bufio.NewReaderSize(in, 64<<10), sum: sha256.New()}
	return r, r.readHeader()
}

// read fills b.
func (r *reader) read(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

func (r *reader) readHeader() error {
	prelude := make([]byte, preludeBytes)
	err := r.read(prelude)
	if (err == nil || errors.Is(err, ErrCut)) && !bytes.HasPrefix(prelude, []byte(magic)) {
		return ErrNotSnapshot
	}
	if err != nil {
		return err
	}
	version := binary.BigEndian.Uint32(prelude[len(magic):])
	length := binary.BigEndian.Uint32(prelude[len(magic)+4:])
	switch {
	case version > formatVersion:
		return fmt.Errorf("%w (format %d; this one knows %d)", ErrNewer, version, formatVersion)
	case version == 0 || length > maxHeaderBytes:
		return fmt.Errorf("%w: its header is impossible", ErrDamaged)
	}
	whole := append(prelude, make([]byte, length+crcBytes)...)
	if err := r.read(whole[preludeBytes:]); err != nil {
		return err
	}
	text, err := checked(whole)
	if err != nil {
		return fmt.Errorf("%w: its header", err)
	}
	r.sum.Write(whole)
	if err := json.Unmarshal(text[preludeBytes:], &r.header); err != nil {
		return fmt.Errorf("%w: its header: %w", ErrDamaged, err)
	}
	return r.header.validate()
}

func (h *Header) validate() error {
	if len(h.Cluster) > maxHeaderString || h.Shards < 1 || h.Shards > wire.MaxShards || h.CellBytes < 0 || h.CellBytes > wire.MaxValueBytes {
		return fmt.Errorf("%w: its header is impossible: cluster %.40q, %d shards, values of %d bytes", ErrDamaged, h.Cluster,
			h.Shards, h.CellBytes)
	}
	return nil
}

// checked strips a checksum that is right.
func checked(b []byte) ([]byte, error) {
	b, sum := b[:len(b)-crcBytes], b[len(b)-crcBytes:]
	if crc32.Checksum(b, castagnoli) != binary.BigEndian.Uint32(sum) {
		return nil, ErrDamaged
	}
	return b, nil
}

// next calls visit for the objects of the next block; false: that was the trailer, and all is well. The objects are
// overwritten by the next call.
func (r *reader) next(visit func(*Object) error) (bool, error) {
	head := r.resize(blockHeaderBytes)
	if err := r.read(head); err != nil {
		return false, err
	}
	kind, length, count := head[0], binary.BigEndian.Uint32(head[1:]), binary.BigEndian.Uint32(head[5:])
	switch {
	case kind == trailerKind && length == trailerBytes && count == 0:
	case kind == objectsKind && length <= uint32(maxBlockBytes) && count > 0 && count <= length/objectBytes:
	default:
		return false, fmt.Errorf("%w: block %d begins impossibly", ErrDamaged, r.totals.Blocks)
	}
	whole := r.resize(blockHeaderBytes + int(length) + crcBytes)
	if err := r.read(whole[blockHeaderBytes:]); err != nil {
		return false, err
	}
	part, err := checked(whole)
	if err != nil {
		return false, fmt.Errorf("%w: block %d has a wrong checksum", err, r.totals.Blocks)
	}
	if kind == trailerKind {
		return false, r.trailer(part[blockHeaderBytes:])
	}
	r.sum.Write(whole)
	return true, r.objects(part[blockHeaderBytes:], count, visit)
}

// resize returns the buffer with the given length, and keeps its beginning.
func (r *reader) resize(n int) []byte {
	if n > cap(r.buffer) {
		r.buffer = append(make([]byte, 0, max(n, maxBlockBytes+blockHeaderBytes+crcBytes)), r.buffer[:min(len(r.buffer), n)]...)
	}
	r.buffer = r.buffer[:n]
	return r.buffer
}

func (r *reader) objects(payload []byte, count uint32, visit func(*Object) error) error {
	for range count {
		if len(payload) < objectBytes {
			return fmt.Errorf("%w: block %d ends within an object", ErrDamaged, r.totals.Blocks)
		}
		o := Object{
			Key:     wire.Key{Hi: binary.BigEndian.Uint64(payload), Lo: binary.BigEndian.Uint64(payload[8:])},
			Version: binary.BigEndian.Uint64(payload[16:]),
		}
		length := int(binary.BigEndian.Uint16(payload[24:]))
		payload = payload[objectBytes:]
		if length > len(payload) || length > wire.MaxValueBytes {
			return fmt.Errorf("%w: block %d has a value of %d bytes", ErrDamaged, r.totals.Blocks, length)
		}
		o.Value, payload = payload[:length:length], payload[length:]
		r.totals.Objects++
		r.totals.ValueBytes += uint64(length)
		if err := visit(&o); err != nil {
			return err
		}
	}
	if len(payload) > 0 {
		return fmt.Errorf("%w: block %d has %d bytes too many", ErrDamaged, r.totals.Blocks, len(payload))
	}
	r.totals.Blocks++
	return nil
}

func (r *reader) trailer(payload []byte) error {
	told := Totals{binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:]), binary.BigEndian.Uint64(payload[16:])}
	if told != r.totals {
		return fmt.Errorf("%w: it should have %d objects in %d blocks, and has %d in %d", ErrDamaged, told.Objects, told.Blocks,
			r.totals.Objects, r.totals.Blocks)
	}
	if !bytes.Equal(payload[24:], r.sum.Sum(nil)) {
		return fmt.Errorf("%w: its SHA-256 is another one", ErrDamaged)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return nil
}

// Verify reads a whole snapshot, calls visit for every object, and returns the header and the totals. An object may be used
// only during the call. It is known to be correct only when Verify has returned without an error.
func Verify(in io.Reader, visit func(*Object) error) (Header, Totals, error) {
	r, err := newReader(in)
	for more := err == nil; more; {
		more, err = r.next(visit)
	}
	return r.header, r.totals, err
}
