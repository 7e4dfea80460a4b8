package support

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Archive is a compressed tar file of parts. Its owner alone may read it.
type Archive struct {
	path  string
	file  *os.File
	zip   *gzip.Writer
	tar   *tar.Writer
	top   string
	most  int64 // of a log
	now   time.Time
	notes strings.Builder
}

// Create makes an archive. An existing file is not replaced.
func Create(path string, now time.Time) (*Archive, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	a := &Archive{path: path, file: file, zip: gzip.NewWriter(file), now: now, most: MaxLog}
	a.tar, a.top = tar.NewWriter(a.zip), strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	return a, nil
}

// Add adds a part, as it is. The caller vouches for it.
func (a *Archive) Add(name string, text []byte) error {
	header := &tar.Header{Name: a.top + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: a.now, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := a.tar.Write(text)
	return err
}

// AddJSON adds an object.
func (a *Archive) AddJSON(name string, object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	return a.Add(name, append(text, '\n'))
}

// MaxLog is the most of a log that is packed: its end. Redacting takes a second for some MiB.
const MaxLog = 8 << 20

// AddLog adds the end of a log, without secrets. The first line of a part is left out: it may be cut within a secret.
func (a *Archive) AddLog(name string, log io.ReadSeeker) error {
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := log.Seek(max(0, size-a.most), io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(log, a.most))
	if err != nil {
		return err
	}
	if size > a.most {
		_, rest, _ := strings.Cut(string(text), "\n")
		text = []byte(rest)
		a.Note("%s: its last %d KiB", name, a.most>>10)
	}
	return a.Add(name, Redact(text))
}

// Note tells the reader what is missing.
func (a *Archive) Note(format string, args ...any) { fmt.Fprintf(&a.notes, format+"\n", args...) }

// Notes is what [Archive.Note] was told.
func (a *Archive) Notes() string { return string(Redact([]byte(a.notes.String()))) }

// Close completes the archive.
func (a *Archive) Close() error {
	err := a.Add("notes.txt", []byte(a.Notes()))
	return errors.Join(err, a.tar.Close(), a.zip.Close(), a.file.Close())
}

// Discard removes an archive that was not completed.
func (a *Archive) Discard() error { return errors.Join(a.file.Close(), os.Remove(a.path)) }
