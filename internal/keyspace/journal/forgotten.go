package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// forgotten is entries that are on the disk only. Its files are open: they may be removed meanwhile.
type forgotten struct {
	state *os.File // the content's file; nil: it has none of them
	runs  []run
	last  uint64 // the index of the last entry
	logs  []*os.File
}

// forgotten returns the entries behind the state up to one that is forgotten, or is the state.
func (j *Journal) forgotten(to uint64) (f *forgotten, err error) {
	f = &forgotten{last: to}
	for _, r := range j.now.runs {
		if r.first <= to {
			f.runs = append(f.runs, r)
		}
	}
	if len(f.runs) == 0 {
		return f, nil
	}
	if f.runs[0].at == 0 {
		f.state = j.now.file
	}
	i := slices.IndexFunc(f.runs, func(r run) bool { return r.at > 0 })
	if i < 0 {
		return f, nil
	}
	names, err := logsFrom(filepath.Join(j.dir, walDir), f.runs[i].at)
	for n := 0; err == nil && n < len(names); n++ {
		var log *os.File
		if log, err = os.Open(names[n]); err == nil {
			f.logs = append(f.logs, log)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// logsFrom lists the files of a write-ahead log from the one that has the record at an index.
func logsFrom(dir string, at uint64) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for i, name := range slices.Backward(names) {
		var sequence, first uint64 // first is the index of the file's first record
		if _, err := fmt.Sscanf(filepath.Base(name), "%016x-%016x.wal", &sequence, &first); err != nil {
			return nil, err
		}
		if first <= at {
			return names[i:], nil
		}
	}
	return nil, fmt.Errorf("%w: no file of %s has record %d", ErrContent, dir, at)
}

func (f *forgotten) close() (err error) {
	for _, log := range f.logs {
		err = errors.Join(err, log.Close())
	}
	f.logs = nil
	return err
}

// length is the number of entries of a run.
func (f *forgotten) length(i int) uint64 {
	if i+1 < len(f.runs) {
		return f.runs[i+1].first - f.runs[i].first
	}
	return f.last + 1 - f.runs[i].first
}

// each reads the entries, in their order.
func (f *forgotten) each(visit func(Entry) error) error {
	if f.state != nil {
		if err := f.stored(visit); err != nil {
			return err
		}
	}
	if len(f.logs) == 0 {
		return nil
	}
	readers := make([]fileutil.FileReader, len(f.logs))
	for i, log := range f.logs {
		readers[i] = fileutil.NewFileReader(log)
	}
	records := &records{decoder: wal.NewDecoder(readers...)}
	for i, r := range f.runs {
		for n := uint64(0); r.at > 0 && n < f.length(i); n++ {
			e, err := records.entry(r.at + n)
			if err == nil {
				err = visit(e)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stored reads the entries that the content's file has.
func (f *forgotten) stored(visit func(Entry) error) error {
	d, err := newDecoder(whole(f.state))
	if err == nil {
		err = d.skip()
	}
	for i, r := range f.runs {
		for n := uint64(0); err == nil && r.at == 0 && n < f.length(i); n++ {
			e, end, _, failed := d.entry()
			switch {
			case failed != nil:
				err = failed
			case end:
				err = ErrContent
			default:
				err = visit(e)
			}
		}
	}
	return err
}

// records reads a write-ahead log that may be written meanwhile.
type records struct{ decoder wal.Decoder }

// entry returns the entry in the record at an index, which is not before the one that was read last.
func (r *records) entry(at uint64) (Entry, error) {
	for {
		e, err := r.next()
		if err != nil {
			return Entry{}, fmt.Errorf("%w: record %d: %w", ErrContent, at, err)
		}
		if e == nil || e.GetIndex() < at {
			continue
		}
		x, err := decode(e.GetData())
		if err != nil || e.GetIndex() != at || x.kind != kindEntry {
			return Entry{}, fmt.Errorf("%w: record %d is not there", ErrContent, at)
		}
		return Entry{x.position.Term, x.payload}, nil
	}
}

// next returns the next record if it is one of the journal's; nil: it is not.
func (r *records) next() (*raftpb.Entry, error) {
	b := new(walpb.Record)
	if err := r.decoder.Decode(b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch b.GetType() {
	case wal.CrcType: // a file begins with the checksum of those before
		if sum := r.decoder.LastCRC(); sum != 0 {
			if err := b.Validate(sum); err != nil {
				return nil, err
			}
		}
		r.decoder.UpdateCRC(b.GetCrc())
	case wal.EntryType:
		e := new(raftpb.Entry)
		return e, proto.Unmarshal(b.GetData(), e)
	}
	return nil, nil //nolint:nilnil // it says so
}
