package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// State returns the state with which the content begins and its index. [Journal.Entries] follow it. The reader does not
// change when the journal does.
func (j *Journal) State() (index uint64, state io.Reader, err error) {
	if j.now.state == 0 {
		return 0, bytes.NewReader(nil), nil
	}
	d, err := newDecoder(whole(j.now.file))
	return j.now.state, d, err
}

// Entries returns the entries behind the state, up to an index.
func (j *Journal) Entries(to uint64) []Entry {
	if to <= j.now.state {
		return nil
	}
	return slices.Clip(j.now.entries[:to-j.now.state])
}

// Content returns the content up to an entry that it has, which is not before the state. The reader belongs to the
// caller, and does not change when the journal does.
func (j *Journal) Content(to uint64) (io.ReadCloser, error) {
	if last := j.now.last(); to < j.now.state || to > last {
		return nil, fmt.Errorf("the disk has the states from entry %d to %d, and not that of %d", j.now.state, last, to)
	}
	index, state, err := j.State()
	if err != nil {
		return nil, err
	}
	return encoded(index, func(w io.Writer) error {
		_, err := io.Copy(w, state)
		return err
	}, j.Entries(to)), nil
}

// Empty is the content of a disk that has no state and no entries.
func Empty() []byte {
	var b bytes.Buffer
	e := encoder{w: &b}
	_ = e.begin(0, nil) // a buffer takes all
	_ = e.end(nil)
	return b.Bytes()
}

// First is the content of a state of entry 1, without entries behind it. Who reads it closes it.
func First(state func(io.Writer) error) io.ReadCloser {
	return encoded(FirstIndex, state, nil)
}

// FirstIndex is the entry whose state [First] has.
const FirstIndex = 1

// encoded encodes a content while it is read.
func encoded(index uint64, state func(io.Writer) error, entries []Entry) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, pieceBytes)
		e := encoder{w: b}
		err := e.begin(index, state)
		if err == nil {
			err = e.end(entries)
		}
		if err == nil {
			err = b.Flush()
		}
		w.CloseWithError(err)
	}()
	return r
}

// Damaged reports whether reading a content of the own disk failed because the disk has changed it.
func Damaged(err error) bool { return errors.Is(err, ErrContent) }
