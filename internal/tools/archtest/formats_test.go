package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listed is a row of docs/upgrades.md: a file, a constant and its value.
var listed = regexp.MustCompile("(?m)^\\|[^|]*\\| `([^`]+)` `([^`]+)` \\| ([^|]+) \\|")

// packageLine is the package of an API.
var packageLine = regexp.MustCompile(`(?m)^package (.+);`)

// formatName matches the names of constants that number a format.
var formatName = regexp.MustCompile(`^(format|[A-Za-z]+Format|[A-Za-z]+Version)$|^format[A-Z]`)

// noFormat matches names that look the same: offsets in messages, outcomes, registers, and texts.
var noFormat = regexp.MustCompile(`^(off|Outcome|reg|about)[A-Z]`)

// numbered are where formats are defined.
var numbered = []string{"wire", "client", node, cluster, gateway, member, keyspace}

// The page on upgrades has the number of every format, so that none changes without it.
func TestUpgradesListsFormats(t *testing.T) {
	const page = "docs/upgrades.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for _, row := range listed.FindAllStringSubmatch(string(text), -1) {
		values[row[1]+" "+row[2]] = row[3]
	}
	if len(values) == 0 {
		t.Fatalf("%s lists no formats", page)
	}
	defined := apiPackages(t)
	for _, s := range sources(t) {
		for name, value := range constants(s) {
			at := s.path + " " + name
			defined[at] = value
			if values[at] == "" && formatName.MatchString(name) && !noFormat.MatchString(name) && numbersFormats(s) {
				t.Errorf("%s does not list %s = %s: is it the number of a format?", page, at, value)
			}
		}
	}
	for at, value := range values {
		if defined[at] != value {
			t.Errorf("%s says that %s is %s, and it is %q: does this release read the format before?",
				page, at, value, defined[at])
		}
	}
}

// apiPackages has the names of the APIs' packages, which have their versions.
func apiPackages(t *testing.T) map[string]string {
	t.Helper()
	packages := make(map[string]string)
	files(t, func(path string, text []byte) {
		if found := packageLine.FindSubmatch(text); found != nil {
			packages[path+" package"] = string(found[1])
		}
	}, ".proto")
	return packages
}

func numbersFormats(s source) bool {
	if s.isTest() {
		return false
	}
	for _, dir := range numbered {
		if s.dir() == dir || strings.HasPrefix(s.dir(), dir+"/") {
			return true
		}
	}
	return false
}

// constants are those of a file that are literals.
func constants(s source) map[string]string {
	found := make(map[string]string)
	for _, d := range s.syntax.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i >= len(v.Values) {
					break
				}
				if literal, is := v.Values[i].(*ast.BasicLit); is {
					found[name.Name] = strings.Trim(literal.Value, `"`)
				}
			}
		}
	}
	return found
}
