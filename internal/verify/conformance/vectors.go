package conformance

import (
	"io/fs"

	"github.com/netcraq/netcraq/spec"
)

// Vectors returns the cases of spec/vectors, in the order of the files.
func Vectors() ([]Case, error) {
	files, err := fs.Glob(spec.Vectors, "vectors/*.txt")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, file := range files {
		text, err := fs.ReadFile(spec.Vectors, file)
		if err != nil {
			return nil, err
		}
		more, err := Parse("spec/"+file, text)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	return cases, nil
}
