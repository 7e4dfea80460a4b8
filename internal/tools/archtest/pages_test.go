package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A fence that does not begin its line ends nothing: all that follows is shown as code.
func TestFencesBeginTheirLines(t *testing.T) {
	files(t, func(name string, text []byte) {
		fences := 0
		for i, line := range strings.Split(string(text), "\n") {
			switch at := strings.Index(line, "```"); {
			case at < 0:
			case strings.TrimSpace(line[:at]) == "":
				fences++
			default:
				t.Errorf("%s:%d: a fence begins its line", name, i+1)
			}
		}
		if fences%2 != 0 {
			t.Errorf("%s: a fence is never closed", name)
		}
	}, ".md")
}

// A page that has users change something says before what they gain and lose, and what has to be there.
func TestPagesSayFirst(t *testing.T) {
	for _, c := range []struct {
		page, step string
		before     []string
		after      string
	}{
		{"docs/kubernetes.md", "\n## Install\n", []string{"**Gives**", "**Costs**", "**Breaks**"}, "--namespace netcraq --create-namespace"},
		{"docs/kubernetes.md", "\n## Install\n", nil, "which creates the namespace"},
		{"docs/gateway.md", "\n## See that it works\n", []string{"All writes have to pass through gateways", "placement allow"}, ""},
		{"README.md", "\n## Start\n", []string{"](docs/languages.md)", "bin/netcraq up --keyspace"}, ""},
	} {
		text, err := os.ReadFile(filepath.Join(root, c.page))
		if err != nil {
			t.Fatal(err)
		}
		before, after, found := strings.Cut(string(text), c.step)
		for _, want := range c.before {
			if !found || !strings.Contains(before, want) {
				t.Errorf("%s does not say %q before %q", c.page, want, c.step)
			}
		}
		if !strings.Contains(strings.Join(strings.Fields(after), " "), c.after) {
			t.Errorf("%s does not say %q after %q", c.page, c.after, c.step)
		}
	}
}

var testNamed = regexp.MustCompile("`(Test[A-Za-z0-9_]+)")

// The track record names tests that exist.
func TestTrackRecordNamesTests(t *testing.T) {
	const record = "docs/track-record.md"
	exists := make(map[string]bool)
	for _, s := range sources(t) {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() {
				exists[f.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, record))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range testNamed.FindAllSubmatch(text, -1) {
		if name := string(match[1]); !exists[name] {
			t.Errorf("%s: there is no %s", record, name)
		}
	}
}

// maxBugWords is the most words in which the track record says what a user saw. Its commit and its test have the rest.
const maxBugWords = 20

// A bug of the track record is "- what a user saw: test" or a row "| date | what | how it was found | test |".
var recorded = regexp.MustCompile(`(?m)^- (.+):(?: |$)|^\| 20\S+ \| ([^|]+) \|`)

// Each bug of the track record is told in few words, and once, so that the record can be read as a whole.
func TestTrackRecordIsShort(t *testing.T) {
	const record = "docs/track-record.md"
	text, err := os.ReadFile(filepath.Join(root, record))
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]bool)
	for _, match := range recorded.FindAllSubmatch(text, -1) {
		bug := strings.TrimRight(string(match[1])+string(match[2]), ". ")
		if n := len(strings.Fields(bug)); n > maxBugWords {
			t.Errorf("%s: %d words, more than %d: %s", record, n, maxBugWords, bug)
		}
		if told[bug] {
			t.Errorf("%s tells twice: %s", record, bug)
		}
		told[bug] = true
	}
	if n := strings.Count(string(text), "\n- ") + strings.Count(string(text), "\n| 20"); n != len(told) || n < 100 {
		t.Errorf("%s: %d bugs of %d have the form of one", record, len(told), n)
	}
}

// A record of a decision has its number in its title, and no other record has it.
func TestDecisionsHaveNumbers(t *testing.T) {
	const folder = "docs/adr/"
	records := make(map[string]string)
	files(t, func(name string, text []byte) {
		record, isRecord := strings.CutPrefix(name, folder)
		if !isRecord || record == "README.md" {
			return
		}
		number, _, _ := strings.Cut(record, "-")
		if !strings.HasPrefix(string(text), "# "+number+" ") {
			t.Errorf("%s: the title begins with %q", name, "# "+number+" ")
		}
		if other := records[number]; other != "" {
			t.Errorf("%s and %s have one number", name, other)
		}
		records[number] = name
	}, ".md")
	if len(records) == 0 {
		t.Errorf("%s has no record", folder)
	}
}

var (
	heading    = regexp.MustCompile("(?m)^#+ +(.+?) *$")
	notInNames = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors lists the names by which links reach the headings of a page, as GitHub makes them.
func anchors(page []byte) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(string(page), -1) {
		name := notInNames.ReplaceAllString(strings.ToLower(match[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestLinksLeadToHeadings(t *testing.T) {
	named := make(map[string][]string)
	files(t, func(name string, text []byte) { named[name] = anchors(text) }, ".md")
	files(t, func(name string, text []byte) {
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			target, anchor, _ := strings.Cut(match[1]+match[2], "#")
			page := name
			if target != "" {
				page = path.Join(path.Dir(name), target)
			}
			known, isPage := named[page]
			if anchor != "" && isPage && !slices.Contains(known, anchor) {
				t.Errorf("%s: no heading %s in %s", name, anchor, page)
			}
		}
	}, ".md")
}

// Compiled files are built locally: once committed, they would stay in the history for ever.
func TestNothingCompiledIsCommitted(t *testing.T) {
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this is no clone, so nothing is committed: %v", err)
	}
	for _, name := range strings.Split(strings.Trim(string(listed), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil && bytes.HasPrefix(text, []byte("\x7fELF")) {
			t.Errorf("%s is a compiled file: git rm --cached it", name)
		}
	}
}
