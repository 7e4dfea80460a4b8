package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A content is encoded as frames: a length, a checksum of all frames so far, a kind and data.
const (
	frameHead   = iota + 1 // the index of the state
	frameState             // a piece of the state
	frameBehind            // the state ends
	frameEntry             // its term and its payload
	frameEnd               // the number of entries
)

const (
	frameBytes = 9       // before the data
	maxFrame   = 4 << 20 // no entry is longer: the chain's objects are far shorter
	pieceBytes = 256 << 10
)

var table = crc32.MakeTable(crc32.Castagnoli)

// ErrContent: a content is damaged or incomplete.
var ErrContent = errors.New("the content of a disk is damaged or incomplete")

// encoder writes a content.
type encoder struct {
	w       io.Writer
	sum     uint32
	entries uint64 // their number, so far
}

func (e *encoder) frame(kind byte, data []byte) error {
	var head [frameBytes]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(data)))
	head[8] = kind
	e.sum = crc32.Update(crc32.Update(e.sum, table, head[8:]), table, data)
	binary.BigEndian.PutUint32(head[4:], e.sum)
	if _, err := e.w.Write(head[:]); err != nil {
		return err
	}
	_, err := e.w.Write(data)
	return err
}

// Write writes a piece of the state.
func (e *encoder) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(n+pieceBytes, len(p))]
		if err := e.frame(frameState, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// begin writes the state of an entry. Of entry 0 there is none.
func (e *encoder) begin(index uint64, state func(io.Writer) error) error {
	if err := e.frame(frameHead, binary.AppendUvarint(nil, index)); err != nil {
		return err
	}
	if index > 0 {
		w := bufio.NewWriterSize(e, pieceBytes)
		if err := errors.Join(state(w), w.Flush()); err != nil {
			return err
		}
	}
	return e.frame(frameBehind, nil)
}

// entry writes an entry behind the state.
func (e *encoder) entry(x Entry) error {
	e.entries++
	return e.frame(frameEntry, append(binary.AppendUvarint(nil, x.Term), x.Payload...))
}

// end writes the last entries.
func (e *encoder) end(entries []Entry) error {
	for _, x := range entries {
		if err := e.entry(x); err != nil {
			return err
		}
	}
	return e.frame(frameEnd, binary.AppendUvarint(nil, e.entries))
}

// decoder reads a content: its state first, as an [io.Reader], and then the entries.
type decoder struct {
	r     io.Reader
	sum   uint32
	index uint64 // of the state
	piece []byte // of the state, not read yet
	ended bool   // the state
}

func (d *decoder) frame() (kind byte, data []byte, err error) {
	var head [frameBytes]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrContent, err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return 0, nil, ErrContent
	}
	data = make([]byte, n)
	if _, err := io.ReadFull(d.r, data); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrContent, err)
	}
	d.sum = crc32.Update(crc32.Update(d.sum, table, head[8:]), table, data)
	if d.sum != binary.BigEndian.Uint32(head[4:]) {
		return 0, nil, ErrContent
	}
	return head[8], data, nil
}

// newDecoder reads the head of a content.
func newDecoder(r io.Reader) (*decoder, error) {
	d := &decoder{r: r}
	kind, data, err := d.frame()
	if err != nil {
		return nil, err
	}
	index, n := binary.Uvarint(data)
	if kind != frameHead || n <= 0 || n != len(data) {
		return nil, ErrContent
	}
	d.index = index
	return d, nil
}

// Read reads the state.
func (d *decoder) Read(p []byte) (n int, err error) {
	for len(d.piece) == 0 {
		if d.ended {
			return 0, io.EOF
		}
		kind, data, err := d.frame()
		switch {
		case err != nil:
			return 0, err
		case kind == frameState && d.index > 0:
			d.piece = data
		case kind == frameBehind && len(data) == 0:
			d.ended = true
		default:
			return 0, ErrContent
		}
	}
	n = copy(p, d.piece)
	d.piece = d.piece[n:]
	return n, nil
}

// skip goes to the entries.
func (d *decoder) skip() error {
	_, err := io.Copy(io.Discard, d)
	return err
}

// entry returns the next entry behind the state, or its end and the number of entries.
func (d *decoder) entry() (e Entry, end bool, n uint64, err error) {
	kind, data, err := d.frame()
	if err != nil {
		return e, false, 0, err
	}
	number, size := binary.Uvarint(data)
	switch {
	case size <= 0:
	case kind == frameEnd && size == len(data):
		return e, true, number, nil
	case kind == frameEntry:
		return Entry{number, data[size:]}, false, 0, nil
	}
	return e, false, 0, ErrContent
}

// entries returns the entries behind the state, which is skipped, to the end of the content.
func (d *decoder) entries() (all []Entry, err error) {
	if err := d.skip(); err != nil {
		return nil, err
	}
	for {
		e, end, n, err := d.entry()
		switch {
		case err != nil:
			return nil, err
		case end && n != uint64(len(all)):
			return nil, ErrContent
		case end:
			return all, nil
		}
		all = append(all, e)
	}
}
