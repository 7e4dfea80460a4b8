package figure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A move of results gathers them in one directory, which then replaces the results that were moved
// before: these must stay until their replacement is complete.
const (
	movingDir = "before.moving"
	moveName  = "move.json" // in it: the names that move, written before the first one does
)

// move records a move, so that an interrupted one can be finished. Names are relative to the
// results directory.
type move struct {
	To    string   `json:"to"`
	Names []string `json:"names"`
}

// setAside moves all results out of the way of a run that begins anew: those of a complete run to
// before-full or before-quick, anything else to before-part, so that no part of a run takes the
// place of a complete one. Each keeps only the last. It is a directory of results like any other. It
// returns where they are; "": there were none.
func setAside(dir string, specs []*Spec) (string, error) {
	names, err := existing(dir, movable(specs))
	if len(names) == 0 || err != nil {
		return "", err
	}
	m := move{To: "before-" + kindOfResults(dir), Names: names}
	encode := func(w io.Writer) error { return json.NewEncoder(w).Encode(m) }
	if err := writeWhole(filepath.Join(dir, movingDir, moveName), encode); err != nil {
		return "", err
	}
	return finishMove(dir)
}

// finishMove finishes a move that has begun, if by a process that died in the middle of it. Until
// then a directory of results is not used. It returns where the results are; "": none was to be
// moved.
func finishMove(dir string) (string, error) {
	moving := filepath.Join(dir, movingDir)
	text, err := os.ReadFile(filepath.Join(moving, moveName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var m move
	if err := json.Unmarshal(text, &m); err != nil {
		return "", fmt.Errorf("%s is damaged: move what is in that directory back, and remove it: %w",
			filepath.Join(moving, moveName), err)
	}
	left, err := existing(dir, m.Names)
	if err != nil {
		return "", err
	}
	for _, name := range left {
		if err := rename(filepath.Join(dir, name), filepath.Join(moving, name)); err != nil {
			return "", err
		}
	}
	to := filepath.Join(dir, m.To)
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	if err := os.Rename(moving, to); err != nil {
		return "", err
	}
	return to, os.Remove(filepath.Join(to, moveName))
}

// rename moves a file to a directory that may not be there yet.
func rename(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// movable are the names of results within their directory. The record of a run of all figures
// comes last.
func movable(specs []*Spec) []string {
	var names []string
	for _, s := range specs {
		names = append(append(names, filesOf("", s)...), textsOf("", s))
	}
	return append(names, ReportName, SummaryName, completePath(""), batchPath(""))
}

// existing are those of the names that are there.
func existing(dir string, names []string) ([]string, error) {
	var there []string
	for _, name := range names {
		_, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case err == nil:
			there = append(there, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return there, nil
}

// kindOfResults is the mode of the run of all figures that came to its end here, else "part".
func kindOfResults(dir string) string {
	text, err := os.ReadFile(completePath(dir))
	var run Header
	if err != nil || json.Unmarshal(text, &run) != nil {
		return "part"
	}
	return mode(run.Quick)
}
