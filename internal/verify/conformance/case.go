package conformance

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// Case is one vector: a state, and packets with their expected results.
type Case struct {
	Name    string
	Options chain.Options
	State   State
	Steps   []Step
	keys    keyNames
}

// Step is one packet and its results.
type Step struct {
	Line  string   // as it stands in the file
	Frame []byte   // received by the node
	Plain bool     // the layers below the message are ordinary, so it can be sent through a socket
	Want  []string // lines of results, without the mark
}

// resultMark begins a line of results, which only [Update] writes.
const resultMark = "> "

// defaultOptions hold for a case that has no line "options".
var defaultOptions = chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 16, MaxSessions: 16}

// Parse reads a file of vectors.
func Parse(file string, text []byte) ([]Case, error) {
	var cases []Case
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if name, ok := strings.CutPrefix(line, "case "); ok {
			cases = append(cases, newCase(name))
			continue
		}
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		if len(cases) == 0 {
			return nil, fmt.Errorf("%s:%d: a case has to come first", file, number)
		}
		if err := cases[len(cases)-1].addLine(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
	}
	return cases, scanner.Err()
}

func newCase(name string) Case {
	return Case{
		Name: name, Options: defaultOptions, keys: make(keyNames),
		State: State{
			Shards: make(map[uint16]Shard), Objects: make(objects), Sessions: make(map[chain.SessionKey]chain.Session),
		},
	}
}

func (c *Case) addLine(line string) error {
	if want, ok := strings.CutPrefix(line, resultMark); ok {
		if len(c.Steps) == 0 {
			return fmt.Errorf("a result before the first packet")
		}
		last := &c.Steps[len(c.Steps)-1]
		last.Want = append(last.Want, want)
		return nil
	}
	w, err := readWords(line)
	if err != nil {
		return err
	}
	switch word := w.next(); word {
	case "options":
		c.addOptions(w)
	case "shard":
		c.addShard(w)
	case "object":
		c.addObject(w)
	case "session":
		c.addSession(w)
	case "heart":
		c.addHeart(w)
	case "in":
		c.addStep(line, w)
	default:
		return fmt.Errorf("a line begins with case, options, shard, object, session, heart, in or >, not %q", word)
	}
	return w.done()
}

// Update rewrites a file of vectors with the results of the reference target.
func Update(file string, text []byte) ([]byte, error) {
	cases, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	var results [][]string
	for i := range cases {
		got, err := run(NewReference(), &cases[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, cases[i].Name, err)
		}
		results = append(results, got...)
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, strings.TrimSpace(resultMark)) {
			continue
		}
		out.WriteString(line)
		if strings.HasPrefix(trimmed, "in ") {
			for _, result := range results[0] {
				out.WriteString("    " + resultMark + result + "\n")
			}
			results = results[1:]
		}
	}
	return out.Bytes(), nil
}
