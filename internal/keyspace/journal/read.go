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

// Entries returns the entries behind an index, up to another one. They must not be forgotten.
func (j *Journal) Entries(behind, to uint64) []Entry {
	if to <= behind {
		return nil
	}
	return slices.Clip(j.now.entries[behind-j.now.forgot : to-j.now.forgot])
}

// Term is that of an entry behind the state.
func (j *Journal) Term(index uint64) uint64 { return j.now.term(index) }

// Held is the number of entries in memory: the last ones.
func (j *Journal) Held() int { return len(j.now.entries) }

// Forget drops entries up to an index from memory that the disk has. [Journal.Content] reads them there.
func (j *Journal) Forget(to uint64) {
	j.mu.Lock()
	written := j.written
	j.mu.Unlock()
	c := &j.now
	if to = min(to, c.written(written)); to > c.forgot {
		c.forgot, c.entries = to, append([]Entry(nil), c.entries[to-c.forgot:]...)
	}
}

// Content returns the content up to an entry that it has, which is not before the state. The reader belongs to the
// caller, and does not change when the journal does.
func (j *Journal) Content(to uint64) (io.ReadCloser, error) {
	if last := j.now.last(); to < j.now.state || to > last {
		return nil, fmt.Errorf("the disk has the states from entry %d to %d, and not that of %d", j.now.state, last, to)
	}
	forgotten, err := j.forgotten(min(to, j.now.forgot))
	if err != nil {
		return nil, err
	}
	index, state, err := j.State()
	if err != nil {
		return nil, errors.Join(err, forgotten.close())
	}
	return encoded(index, func(w io.Writer) error {
		_, err := io.Copy(w, state)
		return err
	}, forgotten, j.Entries(j.now.forgot, to)), nil
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
	return encoded(FirstIndex, state, &forgotten{}, nil)
}

// FirstIndex is the entry whose state [First] has.
const FirstIndex = 1

// encoded encodes a content while it is read.
func encoded(index uint64, state func(io.Writer) error, forgotten *forgotten, entries []Entry) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, pieceBytes)
		e := encoder{w: b}
		err := e.begin(index, state)
		if err == nil {
			err = forgotten.each(e.entry)
		}
		if err == nil {
			err = e.end(entries)
		}
		if err == nil {
			err = b.Flush()
		}
		w.CloseWithError(errors.Join(err, forgotten.close()))
	}()
	return r
}

// Damaged reports whether reading a content of the own disk failed because the disk has changed it.
func Damaged(err error) bool { return errors.Is(err, ErrContent) }
