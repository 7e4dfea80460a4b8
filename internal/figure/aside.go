package figure

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// setAside moves all results out of the way of a run that begins anew: those of a complete run to before-full or before-quick,
// anything else to before-part, so that no part of a run takes the place of a complete one. Each keeps only the last. It is a
// directory of results like any other. It returns where they are; "": there were none.
func setAside(dir string, specs []*Spec) (string, error) {
	var names []string
	for _, s := range specs {
		names = append(names, filesOf(dir, s)...)
	}
	names = append(names, filepath.Join(dir, ReportName), filepath.Join(dir, SummaryName), batchPath(dir))
	names, err := existing(names)
	if len(names) == 0 || err != nil {
		return "", err
	}
	to := filepath.Join(dir, "before-"+kindOfResults(dir, specs))
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	for _, name := range names {
		within, err := filepath.Rel(dir, name)
		if err != nil {
			return "", err
		}
		moved := filepath.Join(to, within)
		if err := errors.Join(os.MkdirAll(filepath.Dir(moved), 0o755), os.Rename(name, moved)); err != nil {
			return "", err
		}
	}
	return to, nil
}

// existing are the files that are there.
func existing(names []string) ([]string, error) {
	var there []string
	for _, name := range names {
		_, err := os.Lstat(name)
		switch {
		case err == nil:
			there = append(there, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return there, nil
}

// kindOfResults is the mode in which all figures were measured to their ends, else "part".
func kindOfResults(dir string, specs []*Spec) string {
	const part = "part"
	if _, err := os.Stat(batchPath(dir)); err == nil {
		return part
	}
	kind := ""
	for _, s := range specs {
		j, err := Read(dir, s.Name)
		if err != nil || j.Ended() == nil || kind != "" && kind != mode(j.Header.Quick) {
			return part
		}
		kind = mode(j.Header.Quick)
	}
	return kind
}
