package figure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Header is the first line of a journal: the identity of the figure, and the conditions at its
// beginning.
type Header struct {
	Figure string    `json:"figure"`
	Quick  bool      `json:"quick"`
	Spec   string    `json:"spec"`   // fingerprint of the figure's definition
	Binary string    `json:"binary"` // fingerprint of the measuring program
	Host   Host      `json:"machine"`
	Began  time.Time `json:"began"`
}

// continues reports whether samples of a run with this header may be added to those of the other,
// and if not, why.
func (h *Header) continues(other *Header) (bool, string) {
	switch {
	case h.Quick != other.Quick:
		return false, "it was measured in " + mode(other.Quick) + " mode"
	case h.Figure != other.Figure || h.Spec != other.Spec:
		return false, "something else was measured"
	case h.Binary != other.Binary:
		return false, "another build measured it"
	case h.Host.identity() != other.Host.identity():
		return false, "it was measured on another machine"
	}
	return true, ""
}

// mode names how much is measured.
func mode(quick bool) string {
	if quick {
		return "quick"
	}
	return "full"
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

// Failure is an error of a cell; without a cell, of the figure.
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
	name    string
	file    *os.File
	spares  bool // a journal with samples has the name: this one takes it with a sample of its own
}

// from is the origin of a run's samples.
type from int

const (
	scratch     from = iota // ignore the earlier journal
	interrupted             // go on with a run that has no end
	incomplete              // go on, too, with one that ended without all of its parts: these are tried again
)

// path is where a figure's journal is, in a directory of results.
func path(dir, figure string) string { return filepath.Join(dir, "raw", figure+".jsonl") }

// Read reads a figure's journal. It ignores a last line that was cut off, as by the death of the
// writer. Without a journal the error is fs.ErrNotExist.
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

// done lists the cells that need no further measurement.
func (j *Journal) done() map[Failure]bool {
	done := make(map[Failure]bool)
	for _, e := range j.Entries {
		if e.Sample != nil {
			done[Failure{Cell: e.Sample.Cell, Round: e.Sample.Round}] = true
		}
	}
	return done
}

// complete reports whether a run has its end and nothing is missing for a failure, or because it was
// not possible then.
func (j *Journal) complete() bool {
	return j.Ended() != nil &&
		!slices.ContainsFunc(j.Entries, func(e Entry) bool { return e.Failure != nil || e.Unable != nil })
}

// goesOn reports whether a run continues this journal.
func (j *Journal) goesOn(begin from) bool {
	return begin >= interrupted && j.Ended() == nil || begin == incomplete && !j.complete()
}

// open starts to write a journal. It continues another one if that is wanted and fits, and returns
// a text about it. Only samples are taken over, since everything else is tried again.
func open(dir string, header Header, begin from) (*Journal, string, error) {
	j, said := &Journal{Header: header, name: path(dir, header.Figure)}, ""
	old, err := Read(dir, header.Figure)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		said = "begins anew: " + err.Error()
	case !old.goesOn(begin):
		j.spares = len(old.done()) > 0
	default:
		ok, why := header.continues(&old.Header)
		if !ok {
			said, j.spares = "begins anew, not on from an interrupted run: "+why, len(old.done()) > 0
			break
		}
		said = fmt.Sprintf("goes on with %d measurements of a run that was interrupted", len(old.done()))
		j.Header, j.Entries = old.Header, old.samples()
	}
	return j, said, j.begin()
}

// samples are the lines of a journal with samples.
func (j *Journal) samples() []Entry {
	return slices.DeleteFunc(slices.Clone(j.Entries), func(e Entry) bool { return e.Sample == nil })
}

// begin writes the header and samples into a new file and keeps it open.
func (j *Journal) begin() error {
	if err := os.MkdirAll(filepath.Dir(j.name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(j.name + ".new")
	if err != nil {
		return err
	}
	j.file = file
	lines := json.NewEncoder(file)
	err = lines.Encode(j.Header)
	for _, e := range j.Entries {
		err = errors.Join(err, lines.Encode(e))
	}
	if err != nil || j.spares {
		return err
	}
	return j.takeName()
}

// takeName makes this the figure's journal. The journal that it replaces may hold the only safe
// copy of samples, so this one is synced to the disk before.
func (j *Journal) takeName() error {
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.spares = false
	return os.Rename(j.file.Name(), j.name)
}

// add appends a line, which is safe from the death of this process when add returns.
func (j *Journal) add(e Entry) error {
	j.Entries = append(j.Entries, e)
	err := json.NewEncoder(j.file).Encode(e)
	if err == nil && j.spares && e.Sample != nil {
		err = j.takeName()
	}
	return err
}

// close ends writing. It reports whether the journal that was there before stays, because this one
// has no samples.
func (j *Journal) close() (stays bool, err error) {
	err = j.file.Close()
	if j.spares {
		err = errors.Join(err, os.Remove(j.file.Name()))
	}
	return j.spares, err
}
