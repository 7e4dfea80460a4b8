package archtest

import (
	"bytes"
	"go/ast"
	"go/format"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 800
	maxFunctionLines = 70
)

// oneSource is the file that programs take over by copying it, and so has more than one idea (0076).
const oneSource = "clients/c/netcraq.c"

func TestFilesAreShort(t *testing.T) {
	files(t, func(path string, text []byte) {
		if path == oneSource {
			return
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxFileLines && !isGenerated(text) {
			t.Errorf("%s has %d lines, more than %d: two ideas?", path, lines, maxFileLines)
		}
	}, ".go", ".c", ".h", ".p4", ".sh", ".md", ".yaml")
}

// generatedBy is the remark by which Go's tools know generated files, here in files of all languages.
var generatedBy = regexp.MustCompile(`(?m)^(//|/\*|#) Code generated .* DO NOT EDIT`)

func isGenerated(text []byte) bool { return generatedBy.Match(text) }

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				return true
			}
			if lines := s.line(f.Body.End()) - s.line(f.Pos()) + 1; lines > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, s.line(f.Pos()), f.Name.Name, lines, maxFunctionLines)
			}
			return true
		})
	}
	files(t, func(path string, text []byte) {
		start := 0
		for i, line := range strings.Split(string(text), "\n") {
			switch {
			case line == "{": // kernel style: nothing but a function's body opens in the first column
				start = i + 1
			case line == "}" && start > 0:
				if lines := i + 2 - start; lines > maxFunctionLines {
					t.Errorf("%s:%d: a function of %d lines, more than %d", path, start, lines, maxFunctionLines)
				}
				start = 0
			}
		}
	}, ".c", ".h")
}

func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		documented[s.dir()] = documented[s.dir()] || s.syntax.Doc.Text() != "" && !s.isTest()
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file of the package has a doc comment that says what it is for", dir)
		}
		if slices.Contains([]string{"util", "utils", "common", "helpers", "misc"}, path.Base(dir)) {
			t.Errorf("%s: a package is named after what it does", dir)
		}
	}
}

func TestNoTestSleeps(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
				t.Errorf("%s:%d: a test waits for what it needs, it does not sleep", s.path, s.line(call.Pos()))
			}
			return true
		})
	}
}

func TestCodeIsFormatted(t *testing.T) {
	for _, s := range sources(t) {
		if want, err := format.Source(s.text); err != nil || !bytes.Equal(s.text, want) {
			t.Errorf("%s: run gofmt on it (%v)", s.path, err)
		}
	}
}

func TestKernelCodeNamesItsLicence(t *testing.T) {
	files(t, func(path string, text []byte) {
		first, _, _ := bytes.Cut(text, []byte("\n"))
		if (strings.HasPrefix(path, "bpf/") || strings.HasPrefix(path, "eval/bpf/")) && !isGenerated(text) &&
			!bytes.Contains(first, []byte("SPDX-License-Identifier: GPL-2.0")) {
			t.Errorf("%s: the first line names the licence: SPDX-License-Identifier: GPL-2.0", path)
		}
	}, ".c", ".h")
}

// link finds the targets of links and pictures in Markdown and in the HTML inside it.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)

func TestLinksLeadSomewhere(t *testing.T) {
	exists := make(map[string]bool)
	files(t, func(name string, _ []byte) {
		for ; name != "."; name = path.Dir(name) {
			exists[name] = true
		}
	}, ".go", ".c", ".h", ".p4", ".sh", ".md", ".yaml", ".txt", ".svg", ".png", ".tmpl", ".proto", ".pml", ".lua", ".json", "")
	files(t, func(name string, text []byte) {
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(match[1]+match[2], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if !exists[path.Join(path.Dir(name), target)] {
				t.Errorf("%s: no file %s", name, target)
			}
		}
	}, ".md")
}
