package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// Names in the directory.
const (
	walDir     = "wal"
	contentDir = "content"
	lockFile   = "lock"
	contentExt = ".content"
	tmpExt     = ".tmp"
)

// contentName is the name of the content with which the write-ahead log goes on at an index of its own.
func contentName(at uint64) string { return fmt.Sprintf("%016x%s", at, contentExt) }

// contents lists the contents of a directory, the newest first.
func contents(dir string) (at []uint64, err error) {
	names, err := os.ReadDir(filepath.Join(dir, contentDir))
	if err != nil {
		return nil, err
	}
	for i := len(names) - 1; i >= 0; i-- {
		var n uint64
		name := names[i].Name()
		if _, err := fmt.Sscanf(name, "%016x", &n); err == nil && name == contentName(n) {
			at = append(at, n)
		}
	}
	return at, nil
}

// content is what a disk has besides promises: a state in a file, and the entries behind it. A file that was replaced
// stays open until nobody reads it.
type content struct {
	file    *os.File // nil: there is no state
	at      uint64   // the index in the write-ahead log of the record that stores it; 0: there is no such record
	state   uint64   // the index of the state
	runs    []run    // of all entries behind it
	forgot  uint64   // entries up to this one are on the disk only
	entries []Entry  // behind forgot
}

// run is entries of one term, one behind the other in the write-ahead log or in the content's file.
type run struct {
	first uint64 // the index of the first entry
	at    uint64 // of that entry in the write-ahead log; 0: the entries are in the content's file
	term  uint64
}

// contentOf is a content whose entries are all in the file.
func contentOf(file *os.File, state uint64, entries []Entry) content {
	c := content{file: file, state: state, forgot: state, entries: make([]Entry, 0, len(entries))}
	for _, e := range entries {
		c.add(0, e)
	}
	return c
}

func (c *content) last() uint64 { return c.forgot + uint64(len(c.entries)) }

// add adds an entry, which the write-ahead log has at an index.
func (c *content) add(at uint64, e Entry) {
	index, follows := c.last()+1, false
	if n := len(c.runs); n > 0 {
		r := &c.runs[n-1]
		follows = r.term == e.Term && (r.at == 0 && at == 0 || r.at > 0 && r.at+index-r.first == at)
	}
	if !follows {
		c.runs = append(c.runs, run{index, at, e.Term})
	}
	c.entries = append(c.entries, e)
}

// cut drops the entries behind an index.
func (c *content) cut(to uint64) {
	for n := len(c.runs); n > 0 && c.runs[n-1].first > to; n-- {
		c.runs = c.runs[:n-1]
	}
	c.forgot = min(c.forgot, to)
	c.entries = slices.Clip(c.entries[:to-c.forgot])
}

// written is the last entry that the disk has if the write-ahead log is written up to an index.
func (c *content) written(to uint64) uint64 {
	if c.at > to {
		return c.state
	}
	last := c.last()
	for _, r := range slices.Backward(c.runs) {
		if r.at <= to {
			if r.at > 0 {
				last = min(last, r.first+to-r.at)
			}
			return last
		}
		last = r.first - 1
	}
	return last
}

// term is that of an entry.
func (c *content) term(index uint64) uint64 {
	for _, r := range slices.Backward(c.runs) {
		if r.first <= index {
			return r.term
		}
	}
	return 0
}

// Arrived is a content of another disk, whole and synced, that is not part of the journal yet.
type Arrived struct {
	content
	sum uint32
}

// Index is that of the content's last entry.
func (a *Arrived) Index() uint64 { return a.last() }

// Content returns it, as [Journal.Content] does.
func (a *Arrived) Content() io.ReadCloser { return io.NopCloser(whole(a.file)) }

// Remove removes a content that is not stored.
func (a *Arrived) Remove() error { return errors.Join(os.Remove(a.file.Name()), a.file.Close()) }

// whole reads a file that others read too.
func whole(f *os.File) io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), pieceBytes)
}

// Receive stores a content beside the journal. It is safe for concurrent use.
func (j *Journal) Receive(r io.Reader) (a *Arrived, err error) {
	f, err := os.CreateTemp(filepath.Join(j.dir, contentDir), "arrived-*"+tmpExt)
	if err != nil {
		return nil, unwritable(j.dir, err)
	}
	a = &Arrived{content: contentOf(f, 0, nil)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Remove())
			a = nil
		}
	}()
	w := bufio.NewWriterSize(f, pieceBytes)
	d, err := newDecoder(io.TeeReader(r, w))
	if err != nil {
		return a, err
	}
	entries, err := d.entries()
	if err != nil {
		return a, err
	}
	a.content, a.sum = contentOf(f, d.index, entries), d.sum
	return a, errors.Join(w.Flush(), f.Sync())
}

// Checkpoint is a content whose state is written, and whose entries are not yet.
type Checkpoint struct {
	f     *os.File
	e     encoder
	index uint64 // of the state
}

// Prepare writes the state of an entry that counts, for a checkpoint. It is safe for concurrent use.
func (j *Journal) Prepare(index uint64, state func(io.Writer) error) (c *Checkpoint, err error) {
	f, err := os.CreateTemp(filepath.Join(j.dir, contentDir), "checkpoint-*"+tmpExt)
	if err != nil {
		return nil, unwritable(j.dir, err)
	}
	w := bufio.NewWriterSize(f, pieceBytes)
	c = &Checkpoint{f: f, e: encoder{w: w}, index: index}
	if err := errors.Join(c.e.begin(index, state), w.Flush()); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Remove removes a checkpoint that is not written.
func (c *Checkpoint) Remove() error { return errors.Join(os.Remove(c.f.Name()), c.f.Close()) }

// finish writes the entries behind the state, and syncs.
func (c *Checkpoint) finish(entries []Entry) (sum uint32, err error) {
	w := bufio.NewWriterSize(c.f, pieceBytes)
	c.e.w = w
	return c.e.sum, errors.Join(c.e.end(entries), w.Flush(), c.f.Sync())
}

// keep gives a content's file its name.
func (j *Journal) keep(f *os.File, at uint64) error {
	dir := filepath.Join(j.dir, contentDir)
	if err := os.Rename(f.Name(), filepath.Join(dir, contentName(at))); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(fileutil.Fsync(f), f.Close())
}

// load reads a content file whose sum is known.
func (j *Journal) load(at uint64, sum uint64) (c content, err error) {
	f, err := os.Open(filepath.Join(j.dir, contentDir, contentName(at)))
	if err != nil {
		return c, err
	}
	d, err := newDecoder(whole(f))
	if err != nil {
		return c, err
	}
	entries, err := d.entries()
	if err == nil && uint64(d.sum) != sum {
		err = ErrContent
	}
	c = contentOf(f, d.index, entries)
	c.at = at
	return c, err
}

// tidy removes the contents but that of an index, and at the start what was left unfinished.
func (j *Journal) tidy(at uint64, start bool) error {
	dir := filepath.Join(j.dir, contentDir)
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		old := strings.HasSuffix(n.Name(), contentExt) && n.Name() != contentName(at)
		if old || start && strings.HasSuffix(n.Name(), tmpExt) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, n.Name())))
		}
	}
	return err
}
