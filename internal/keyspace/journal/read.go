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
	entries := j.Entries(to)
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, pieceBytes)
		e := encoder{w: b}
		err := e.begin(index, func(w io.Writer) error {
			_, err := io.Copy(w, state)
			return err
		})
		if err == nil {
			err = e.end(entries)
		}
		if err == nil {
			err = b.Flush()
		}
		w.CloseWithError(err)
	}()
	return r, nil
}

// Empty is the content of a disk that has no state and no entries.
func Empty() []byte {
	var b bytes.Buffer
	e := encoder{w: &b}
	_ = e.begin(0, nil) // a buffer takes all
	_ = e.end(nil)
	return b.Bytes()
}

// Damaged reports whether reading a content of the own disk failed because the disk has changed it.
func Damaged(err error) bool { return errors.Is(err, ErrContent) }
