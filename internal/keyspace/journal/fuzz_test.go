package journal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// Whatever is in a record or comes as a content, it is taken as it was written or refused.
func FuzzRead(f *testing.F) {
	for _, r := range []record{{kind: kindEntry, payload: []byte("a")}, {kind: kindMark}, {kind: kindVow, promised: 300}, {kind: kindStore}} {
		f.Add(r.encode())
	}
	var b bytes.Buffer
	e := encoder{w: &b}
	if err := e.begin(3, func(w io.Writer) error { _, err := w.Write([]byte("state")); return err }); err != nil {
		f.Fatal(err)
	}
	if err := e.end([]Entry{{1, []byte("a")}, {2, nil}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decode(data); err == nil {
			again, err := decode(r.encode())
			if err != nil || !reflect.DeepEqual(r, again) {
				t.Errorf("%+v, %v, after %+v", again, err, r)
			}
		}
		d, err := newDecoder(bytes.NewReader(data))
		if err != nil {
			return
		}
		state, err := io.ReadAll(d)
		if err != nil {
			return
		}
		entries, err := d.entries()
		if err != nil {
			return
		}
		var b bytes.Buffer
		e := encoder{w: &b}
		must(t, e.begin(d.index, func(w io.Writer) error { _, err := w.Write(state); return err }), e.end(entries))
		again, err := newDecoder(bytes.NewReader(b.Bytes()))
		must(t, err)
		if got, err := io.ReadAll(again); err != nil || !bytes.Equal(got, state) {
			t.Errorf("state %q, %v, after %q", got, err, state)
		}
	})
}

// Whatever is in the files, the directory is read or refused.
func FuzzOpen(f *testing.F) {
	smallSegments(f)
	dir := f.TempDir()
	j, err := Open(dir, "default", 7, "a")
	must(f, err)
	must(f, j.Vow(1), j.Append([]Entry{{1, []byte("a")}}), j.Flush(), j.Close())
	name, data, end := lastFile(f, dir)
	f.Add(data[:end])
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, walDir), 0o700), os.WriteFile(filepath.Join(dir, walDir, filepath.Base(name)), data, 0o600))
		if j, err := Open(dir, "default", 7, "a"); err == nil {
			must(t, j.Close())
		}
	})
}
