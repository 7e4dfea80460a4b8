package papers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"
)

// TestFindingsHaveTheirFacts compares the fields of each template with the facts that the source passes:
// a note whose condition no test meets can't fail when a measurement is published.
func TestFindingsHaveTheirFacts(t *testing.T) {
	used := make(map[string]bool)
	for _, c := range findingCalls(t) {
		tree := findings.Lookup(c.finding)
		if tree == nil {
			t.Errorf("%s: findings.tmpl defines no %q", c.at, c.finding)
			continue
		}
		used[c.finding] = true
		if want := fieldsOf(t, tree.Tree.Root, used); !slices.Equal(c.facts, want) {
			t.Errorf("%s: %q has the fields %q and gets %q", c.at, c.finding, want, c.facts)
		}
	}
	for _, defined := range findings.Templates() {
		if !used[defined.Name()] && defined.Name() != findings.Name() {
			t.Errorf("%q is not used", defined.Name())
		}
	}
}

// findingCall is a call of say or sentence.
type findingCall struct {
	at      string // place in the source
	finding string
	facts   []string // sorted
}

// findingCalls are those of this package.
func findingCalls(t *testing.T) []findingCall {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var calls []findingCall
	files := token.NewFileSet()
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "findings.go" {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.Ident); ok && (f.Name == "say" || f.Name == "sentence") {
					last := call.Args[len(call.Args)-2:]
					calls = append(calls,
						findingCall{files.Position(call.Pos()).String(), literal(t, last[0]), keys(t, last[1])})
				}
			}
			return true
		})
	}
	if len(calls) == 0 {
		t.Fatal("no calls: the test looks for the wrong functions")
	}
	return calls
}

// literal is the value of a string literal.
func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	if lit, ok := e.(*ast.BasicLit); ok {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	t.Fatalf("%#v: write the name of a finding and of its facts as a literal", e)
	return ""
}

// keys are those of a literal of facts; none of nil.
func keys(t *testing.T, e ast.Expr) []string {
	t.Helper()
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	var all []string
	for _, element := range lit.Elts {
		all = append(all, literal(t, element.(*ast.KeyValueExpr).Key))
	}
	slices.Sort(all)
	return all
}

// fieldsOf lists the fields that a template uses, sorted, and marks the templates that it includes as used.
func fieldsOf(t *testing.T, list *parse.ListNode, used map[string]bool) []string {
	t.Helper()
	fields := make(map[string]bool)
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
		case *parse.TemplateNode:
			included := findings.Lookup(n.Name)
			if included == nil || len(fieldsOf(t, included.Tree.Root, used)) > 0 {
				t.Errorf("%s: includes what does not exist, or has fields", n)
			}
			used[n.Name] = true
		case *parse.ActionNode:
			for _, command := range n.Pipe.Cmds {
				for _, arg := range command.Args {
					if field, ok := arg.(*parse.FieldNode); ok {
						fields[field.Ident[0]] = true
					}
				}
			}
		default:
			t.Errorf("%s: decide in Go, and put the words into a template each", n)
		}
	}
	return slices.Sorted(maps.Keys(fields))
}
