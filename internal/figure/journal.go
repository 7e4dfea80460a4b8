package figure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Header is the first line of a journal: what may be continued, and under which circumstances it was begun.
type Header struct {
	Figure  string    `json:"figure"`
	Quick   bool      `json:"quick"`
	Spec    string    `json:"spec"`   // fingerprint of what is measured
	Binary  string    `json:"binary"` // fingerprint of what measures
	Machine Machine   `json:"machine"`
	Began   time.Time `json:"began"`
}

// continues reports whether samples of a run with this header may be added to those of the other, and if not, why.
func (h *Header) continues(other *Header) (bool, string) {
	switch {
	case h.Figure != other.Figure || h.Quick != other.Quick || h.Spec != other.Spec:
		return false, "something else was measured"
	case h.Binary != other.Binary:
		return false, "another build measured it"
	case h.Machine.identity() != other.Machine.identity():
		return false, "it was measured on another machine"
	}
	return true, ""
}

// Entry is a line of a journal after the first. One of its parts is there.
type Entry struct {
	Sample  *Measured `json:"sample,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	Unable  *Failure  `json:"unable,omitempty"`
	End     *End      `json:"end,omitempty"`
}

// Measured is a sample with its place.
type Measured struct {
	Cell
	Round   int       `json:"round"`
	Seconds float64   `json:"seconds"`
	At      time.Time `json:"at"`
	Sample
}

// Failure is what went wrong with a cell; with no cell, with the figure.
type Failure struct {
	Cell
	Round int    `json:"round"`
	Why   string `json:"why"`
}

// End is the last line of a journal: all rounds were measured, or the time was up.
type End struct {
	Settings []string   `json:"settings,omitempty"`
	Load     [3]float64 `json:"load"` // average number of processes that ran, over 1, 5 and 15 minutes
	StealPct float64    `json:"steal_percent"`
	Seconds  float64    `json:"seconds"` // of the last run
	TimeUp   bool       `json:"time_up"`
	At       time.Time  `json:"at"`
}

// Journal is the file of one run of one figure.
type Journal struct {
	Header  Header
	Entries []Entry
	file    *os.File
}

// path is where a figure's journal is, in a directory of results.
func path(dir, figure string) string { return filepath.Join(dir, "raw", figure+".jsonl") }

// Read reads a figure's journal. A last line that was cut off, as by a failure of power, is left out. Without a journal the
// error is fs.ErrNotExist.
func Read(dir, figure string) (*Journal, error) {
	file, err := os.Open(path(dir, figure))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := json.NewDecoder(bufio.NewReader(file))
	j := new(Journal)
	if err := lines.Decode(&j.Header); err != nil {
		return nil, fmt.Errorf("%s has no header, remove it: %w", file.Name(), err)
	}
	for {
		var e Entry
		if lines.Decode(&e) != nil { // the end, or a line cut off
			return j, nil
		}
		j.Entries = append(j.Entries, e)
	}
}

// Ended returns the last line of a run that is complete, else nil.
func (j *Journal) Ended() *End {
	for i := len(j.Entries) - 1; i >= 0; i-- {
		if j.Entries[i].End != nil {
			return j.Entries[i].End
		}
	}
	return nil
}

// done lists what needs no further measurement.
func (j *Journal) done() map[Failure]bool {
	done := make(map[Failure]bool)
	for _, e := range j.Entries {
		if e.Sample != nil {
			done[Failure{Cell: e.Sample.Cell, Round: e.Sample.Round}] = true
		}
	}
	return done
}

// open starts to write a journal: on from one that was not ended, if that fits, else anew. It returns what it says about it.
func open(dir string, header Header, again bool) (*Journal, string, error) {
	old, err := Read(dir, header.Figure)
	said := ""
	switch {
	case again || errors.Is(err, fs.ErrNotExist):
	case err != nil:
		said = "begins anew: " + err.Error()
	case old.Ended() != nil:
	default:
		if ok, why := header.continues(&old.Header); ok {
			said = fmt.Sprintf("goes on with %d measurements of a run that was interrupted", len(old.done()))
			return old, said, old.rewrite(dir)
		} else {
			said = "begins anew, not on from an interrupted run: " + why
		}
	}
	j := &Journal{Header: header}
	return j, said, j.rewrite(dir)
}

// rewrite writes what is known into a new file and keeps that open.
func (j *Journal) rewrite(dir string) error {
	name := path(dir, j.Header.Figure)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	j.file = file
	entries := j.Entries
	j.Entries = nil
	if err := json.NewEncoder(file).Encode(j.Header); err != nil {
		return err
	}
	for _, e := range entries {
		if err := j.add(e); err != nil {
			return err
		}
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// add appends a line, which is safe from the death of this process when add returns.
func (j *Journal) add(e Entry) error {
	j.Entries = append(j.Entries, e)
	return json.NewEncoder(j.file).Encode(e)
}
