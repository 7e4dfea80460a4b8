package figure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A directory of results has a folder for each run, which no later run changes, and the link latest to
// the last one. Single figures are made in the folder of the last run. Beside the link are the report
// and the summary of the last run, where earlier releases wrote them.
const latestName = "latest"

// runPart is the kind of a run of single figures, beside the modes of a run of all figures.
const runPart = "part"

// Latest is the folder of the last run. Without one the error is fs.ErrNotExist.
func Latest(root string) (string, error) {
	name, err := os.Readlink(filepath.Join(root, latestName))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, name)
	_, err = os.Stat(folder)
	return folder, err
}

// FolderOfFigure is the folder in which a single figure is made: that of the last run, or a new one.
func FolderOfFigure(root string) (string, error) {
	folder, err := Latest(root)
	if !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	if folder, err = newFolder(root, runPart, time.Now()); err != nil {
		return "", err
	}
	return folder, setLatest(root, folder)
}

// newFolder makes the folder of a run that begins now. Its name sorts by time.
func newFolder(root, kind string, began time.Time) (string, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	name := began.UTC().Format("20060102T150405Z") + "-" + kind
	for n := 1; ; n++ {
		folder := filepath.Join(root, name)
		if n > 1 {
			folder += fmt.Sprintf("-%d", n)
		}
		if err := os.Mkdir(folder, 0o755); !errors.Is(err, fs.ErrExist) {
			return folder, err
		}
	}
}

// setLatest makes a folder the last run. The link is replaced as a whole.
func setLatest(root, folder string) error {
	return replaceLink(filepath.Base(folder), filepath.Join(root, latestName))
}

// replaceLink makes a link, in place of one that is there.
func replaceLink(to, name string) error {
	made := name + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(to, made); err != nil {
		return err
	}
	return os.Rename(made, name)
}

// PublishLatest publishes the last run, and its report and summary beside the link to it. It returns the
// folder of the run.
func PublishLatest(root string, specs []*Spec) (string, error) {
	folder, err := Latest(root)
	if err != nil {
		return "", fmt.Errorf("no figure was made in %s: run 'netcraq bench figures' first: %w", root, err)
	}
	outcomes, err := Publish(folder, specs)
	if err != nil {
		return "", err
	}
	// a copy, not a link: the links of a page lead from where a browser opened it
	err = writeWhole(filepath.Join(root, ReportName), func(w io.Writer) error {
		return writeReport(w, folder, filepath.Base(folder)+"/", specs, outcomes)
	})
	return folder, errors.Join(err,
		replaceLink(filepath.Join(latestName, SummaryName), filepath.Join(root, SummaryName)))
}

// IsFolder reports whether a directory is the folder of one run, not that of all.
func IsFolder(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, latestName))
	raw, statErr := os.Stat(filepath.Join(dir, "raw"))
	return errors.Is(err, fs.ErrNotExist) && statErr == nil && raw.IsDir()
}

// unfinishedPath is a file that is there until all figures of a run are made. It holds the header of the
// run.
func unfinishedPath(folder string) string { return filepath.Join(folder, "raw", "unfinished.json") }

// startRun chooses the folder of a run of all figures: that of the last run if it was interrupted and is
// of the same kind, else a new one. It reports the reason for a new one if there is a last run.
func startRun(o Options) (folder string, resumed bool, err error) {
	built, err := binary()
	if err != nil {
		return "", false, err
	}
	now := Header{Quick: o.Quick, Binary: built, Host: thisHost(), Began: time.Now().UTC()}
	last, err := Latest(o.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", false, err
	default:
		why, err := whyAnew(&now, last, o)
		if why == "" || err != nil {
			return last, err == nil, err
		}
		if o.Say != nil {
			o.Say(fmt.Sprintf("begins anew: %s; what was measured stays in %s", why, last))
		}
	}
	if folder, err = newFolder(o.Dir, mode(o.Quick), now.Began); err != nil {
		return "", false, err
	}
	write := func(w io.Writer) error { return json.NewEncoder(w).Encode(now) }
	if err := writeWhole(unfinishedPath(folder), write); err != nil {
		return "", false, err
	}
	return folder, false, setLatest(o.Dir, folder)
}

// whyAnew returns the reason why a run can't go on with the last one; "": it can.
func whyAnew(now *Header, last string, o Options) (string, error) {
	text, err := os.ReadFile(unfinishedPath(last))
	var before Header
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no run of all figures was interrupted", nil
	case err != nil:
		return "", err
	case o.Again:
		return "as asked", nil
	case json.Unmarshal(text, &before) != nil:
		return unfinishedPath(last) + " is damaged, so the interrupted run is unknown", nil
	}
	if ok, why := now.continues(&before); !ok {
		return "it can't go on with the run that was interrupted: " + why, nil
	}
	return "", nil
}
