package snapshot

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
)

// writer writes a snapshot. It can take back everything since a mark.
type writer struct {
	file   *os.File
	sum    hash.Hash // SHA-256 of the file
	offset int64
	totals Totals
	block  []byte // payload of the next one
	count  uint32
}

// mark is a state of a writer to go back to.
type mark struct {
	offset int64
	totals Totals
	sum    []byte
}

func newWriter(file *os.File, h *Header) (*writer, error) {
	w := &writer{file: file, sum: sha256.New()}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b := append([]byte(magic), 0, 0, 0, formatVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return w, w.write(withCRC(append(b, text...)))
}

// withCRC appends the checksum of the bytes before it.
func withCRC(b []byte) []byte { return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)) }

func (w *writer) write(b []byte) error {
	n, err := w.file.Write(b)
	w.sum.Write(b[:n])
	w.offset += int64(n)
	return err
}

// add adds an object.
func (w *writer) add(o *Object) error {
	b := binary.BigEndian.AppendUint64(w.block, o.Key.Hi)
	b = binary.BigEndian.AppendUint64(b, o.Key.Lo)
	b = binary.BigEndian.AppendUint64(b, o.Version)
	b = binary.BigEndian.AppendUint16(b, uint16(len(o.Value)))
	w.block = append(b, o.Value...)
	w.count++
	w.totals.Objects++
	w.totals.ValueBytes += uint64(len(o.Value))
	if len(w.block) < blockBytes {
		return nil
	}
	return w.flush()
}

// flush writes the objects that wait for the rest of their block.
func (w *writer) flush() error {
	if w.count == 0 {
		return nil
	}
	err := w.write(block(objectsKind, w.count, w.block))
	w.block, w.count = w.block[:0], 0
	w.totals.Blocks++
	return err
}

func block(kind byte, count uint32, payload []byte) []byte {
	b := make([]byte, 0, blockHeaderBytes+len(payload)+crcBytes)
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, count)
	return withCRC(append(b, payload...))
}

// mark flushes, and remembers the state.
func (w *writer) mark() (mark, error) {
	if err := w.flush(); err != nil {
		return mark{}, err
	}
	sum, err := w.sum.(encoding.BinaryMarshaler).MarshalBinary()
	return mark{w.offset, w.totals, sum}, err
}

// back removes everything since a mark.
func (w *writer) back(m mark) error {
	if err := w.file.Truncate(m.offset); err != nil {
		return err
	}
	if _, err := w.file.Seek(m.offset, io.SeekStart); err != nil {
		return err
	}
	w.offset, w.totals, w.block, w.count = m.offset, m.totals, w.block[:0], 0
	return w.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(m.sum)
}

// finish writes the trailer and makes the file last.
func (w *writer) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint64(nil, w.totals.Objects)
	b = binary.BigEndian.AppendUint64(b, w.totals.ValueBytes)
	b = binary.BigEndian.AppendUint64(b, w.totals.Blocks)
	b = w.sum.Sum(b)
	if err := w.write(block(trailerKind, 0, b)); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("writing the snapshot to the disk: %w", err)
	}
	return nil
}
