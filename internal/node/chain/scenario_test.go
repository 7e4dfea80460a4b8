package chain_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what happens into testdata/*.txt")

// TestScenarios runs the scenarios in testdata: a chain, its clients and every message between them, delivered, lost or
// duplicated. Lines that begin with ">" are the results; -update writes them.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(text))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, text) {
				t.Errorf("%s: the story went otherwise:\n%s", file, difference(string(text), string(got)))
			}
		})
	}
}

// tell runs the commands of a story and returns it with the results behind each command.
func tell(t *testing.T, text string) []byte {
	var out bytes.Buffer
	s := newStage(t)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		command := strings.TrimSpace(line)
		if command == "" || strings.HasPrefix(command, "#") {
			continue
		}
		for _, result := range s.do(command) {
			out.WriteString("> " + result + "\n")
		}
	}
	return out.Bytes()
}

// difference shows the first lines that differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "want " + a[i] + "\n got " + b[i]
		}
	}
	return "one of them ends early"
}
