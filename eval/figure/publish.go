package figure

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of files in the folder of a run.
const (
	ReportName  = "report.html"
	SummaryName = "summary.json"
)

// Publish writes pictures and numbers of every figure with samples in the folder of a run, their report
// and the summary. It returns their outcomes.
func Publish(dir string, specs []*Spec) ([]*Outcome, error) {
	outcomes, err := loadAll(dir, specs)
	if err != nil {
		return nil, err
	}
	for _, o := range outcomes {
		if err := o.publish(dir); err != nil {
			return nil, err
		}
	}
	return outcomes, errors.Join(
		writeWhole(filepath.Join(dir, SummaryName), func(w io.Writer) error { return writeSummary(w, outcomes) }),
		writeWhole(filepath.Join(dir, ReportName),
			func(w io.Writer) error { return writeReport(w, dir, "", specs, outcomes) }),
	)
}

// loadAll reads the outcomes of all figures with a journal.
func loadAll(dir string, specs []*Spec) ([]*Outcome, error) {
	var outcomes []*Outcome
	for _, spec := range specs {
		o, err := Load(dir, spec)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// Summary lists the results of all figures that were made.
func Summary(dir string, specs []*Spec) ([]Result, error) {
	outcomes, err := loadAll(dir, specs)
	return summary(outcomes), err
}

// publish writes the files of one figure, unless they are newer than its journal and this program.
func (o *Outcome) publish(dir string) error {
	if o.Empty() || current(filepath.Join(dir, o.Spec.Name+".csv"), path(dir, o.Spec.Name), "/proc/self/exe") {
		return nil
	}
	base := filepath.Join(dir, o.Spec.Name)
	if _, err := o.Chart().WritePictures(base); err != nil {
		return err
	}
	if err := o.writeTexts(dir); err != nil {
		return err
	}
	return writeWhole(base+".csv", o.writeCSV)
}

// writeTexts writes each text into a file and removes the texts of an earlier run.
func (o *Outcome) writeTexts(dir string) error {
	if err := os.RemoveAll(textsOf(dir, o.Spec)); err != nil {
		return err
	}
	for _, text := range o.Texts() {
		err := writeWhole(filepath.Join(dir, textFile(o.Spec, text)), func(w io.Writer) error {
			_, err := io.WriteString(w, text.Text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// textsOf is the directory of a figure's texts. It holds no other files.
func textsOf(dir string, s *Spec) string { return filepath.Join(dir, "texts", s.Name) }

// textFile is the name of a text's file, within a directory of results.
func textFile(s *Spec, text Text) string { return filepath.Join(textsOf("", s), text.Name+".txt") }

// current reports whether a file exists and is newer than its sources.
func current(name string, sources ...string) bool {
	made, err := os.Stat(name)
	if err != nil {
		return false
	}
	for _, source := range sources {
		if from, err := os.Stat(source); err != nil || from.ModTime().After(made.ModTime()) {
			return false
		}
	}
	return true
}

// files are those of one figure.
func (o *Outcome) files(dir string) []string {
	if o.Empty() {
		return nil
	}
	files := filesOf(dir, o.Spec)
	for _, text := range o.Texts() {
		files = append(files, filepath.Join(dir, textFile(o.Spec, text)))
	}
	return files
}

// filesOf are the files that every figure has.
func filesOf(dir string, s *Spec) []string {
	base := filepath.Join(dir, s.Name)
	return []string{base + ".svg", base + ".png", base + ".csv", path(dir, s.Name)}
}

// writeWhole writes a file that is never seen half written.
func writeWhole(name string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
