// Package verified keeps what the verifiers of other kernels said of the node's programs, in files that command kernels
// writes and the evaluation's history reads.
package verified

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// Dir is the folder of the files in a source tree, Object the compiled programs.
const (
	Dir    = "out/kernels"
	Object = "internal/node/dataplane/xdp/netcraq.o"

	suffix = ".verified.json"
)

// Report is what one kernel said.
type Report struct {
	Kernel    string         `json:"-"`         // of the table of command kernels, such as 6.1-amd64; the file's name has it
	Object    string         `json:"object"`    // hash of the compiled programs
	Processed map[string]int `json:"processed"` // instructions that the verifier processed, by program
}

// Write stores a report in a source tree.
func Write(tree string, r *Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, Dir, r.Kernel+suffix), append(text, '\n'), 0o644)
}

// Read returns the reports of a source tree that are about its present object, by their kernels' names.
func Read(tree string) ([]Report, error) {
	object, err := HashOf(filepath.Join(tree, Object))
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(tree, Dir, "*"+suffix)) // in the order of names
	if err != nil {
		return nil, err
	}
	var reports []Report
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := Report{Kernel: strings.TrimSuffix(filepath.Base(path), suffix)}
		if json.Unmarshal(text, &r) == nil && r.Object == object { // else it was cut off, or is of another object
			reports = append(reports, r)
		}
	}
	return reports, nil
}

// HashOf identifies an object.
func HashOf(path string) (string, error) {
	object, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:]), nil
}
