package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"
)

// Path is the file of lines in a source tree.
const Path = "eval/history.jsonl"

// Line is what is kept of a commit. It is one line of a file.
type Line struct {
	// Commit is the commit that was checked out; with [Changed] at its end if files differed from it.
	Commit  string             `json:"commit"`
	Time    time.Time          `json:"time"`  // of the commit
	Tools   map[Tool]string    `json:"tools"` // versions
	Figures map[string]float64 `json:"figures"`
	Timed   map[string]float64 `json:"timed,omitempty"` // ratios
}

// Changed stands at the end of a commit if files differed from it: the commit that follows may have them.
const Changed = "+"

// Tool is something that figures depend on.
type Tool string

// The tools.
const (
	Kernel Tool = "kernel"
	Clang  Tool = "clang"
	Go     Tool = "go"
	Arch   Tool = "arch"
)

const maxLineBytes = 1 << 20

// Read parses lines, one commit each, oldest first.
func Read(r io.Reader) (lines []Line, err error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLineBytes)
	for number := 1; scanner.Scan(); number++ {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		var l Line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := l.validate(); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		lines = append(lines, l)
	}
	return lines, scanner.Err()
}

// ReadFile reads a file of lines. One that does not exist has none.
func ReadFile(path string) ([]Line, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lines, nil
}

func (l *Line) validate() error {
	if l.Commit == "" {
		return errors.New("the commit is missing")
	}
	if len(l.Figures) == 0 {
		return fmt.Errorf("commit %s has no figures", l.Commit)
	}
	for name, v := range l.Figures {
		if v < 0 || math.IsNaN(v) {
			return fmt.Errorf("commit %s: %s is %v", l.Commit, name, v)
		}
	}
	return nil
}

// Short returns the first characters of the commit.
func (l *Line) Short() string {
	const digits = 8
	if len(l.Commit) <= digits {
		return l.Commit
	}
	short := l.Commit[:digits]
	if l.Commit[len(l.Commit)-1:] == Changed {
		short += Changed
	}
	return short
}
