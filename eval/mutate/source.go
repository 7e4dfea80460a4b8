package mutate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

// instrumented is a package of Go whose conditions ask nqMutant which of them is changed. So all mutants are one
// program, and the environment chooses among them.
type instrumented struct {
	mutants []Mutant
	numbers int               // of mutants, those that are left out included
	files   map[string]string // by name
}

// helperFile is the file that is added to an instrumented package.
const helperFile = "zz_mutant.go"

// helper has the functions that the conditions call. Mutants are numbered from 1.
const helper = `package %s

import (
	"os"
	"strconv"
)

var nqActive, _ = strconv.Atoi(os.Getenv("` + mutantVariable + `"))

// nqMutant returns a condition, or what the mutants n (always) and n+1 (never) make of it.
func nqMutant(n int, condition bool) bool {
	return nqActive == n || condition && nqActive != n+1
}

func nqIs(n int) bool { return nqActive == n }
`

const mutantVariable = "NETCRAQ_MUTANT"

// instrument instruments the Go files of a folder, without its tests.
func instrument(dir fs.FS) (*instrumented, error) {
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	p := &instrumented{files: make(map[string]string)}
	packageName := ""
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		s := &sourceFile{of: p, name: name, source: string(source), set: token.NewFileSet(), seen: make(map[ast.Expr]bool)}
		file, err := parser.ParseFile(s.set, name, source, 0)
		if err != nil {
			return nil, err
		}
		packageName = file.Name.Name
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				s.function = nameOf(f)
				ast.Inspect(f, s.visit)
			}
		}
		p.files[name] = s.result()
	}
	p.files[helperFile] = fmt.Sprintf(helper, packageName)
	return p, nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// sourceFile is a file that is being instrumented.
type sourceFile struct {
	of       *instrumented
	name     string
	source   string
	set      *token.FileSet
	function string
	seen     map[ast.Expr]bool
	inserted []insertion
}

// insertion is text that comes into a file before an offset.
type insertion struct {
	at   int
	text string
}

func (s *sourceFile) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.IfStmt:
		s.condition(n.Cond)
	case *ast.ForStmt:
		s.condition(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					s.condition(e)
				}
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			s.condition(n)
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR || comparison[n.Op] {
			s.condition(n)
		}
	}
	return true
}

var comparison = map[token.Token]bool{
	token.EQL: true, token.NEQ: true, token.LSS: true, token.LEQ: true, token.GTR: true, token.GEQ: true,
}

// moved are comparisons with the other boundary.
var moved = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// condition makes mutants of the parts of a condition that contain no other.
func (s *sourceFile) condition(e ast.Expr) {
	switch n := e.(type) {
	case nil:
		return
	case *ast.ParenExpr:
		s.condition(n.X)
		return
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			s.condition(n.X)
			return
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			s.condition(n.X)
			s.condition(n.Y)
			return
		}
	}
	if !s.seen[e] {
		s.seen[e] = true
		s.mutate(e)
	}
}

func (s *sourceFile) mutate(e ast.Expr) {
	from, to := s.set.Position(e.Pos()), s.set.Position(e.End())
	m := Mutant{Function: s.function, File: s.name, Line: from.Line, Text: s.source[from.Offset:to.Offset]}
	shipped := shippedAs(e)
	number := s.add(m, Always, shipped)
	s.add(m, Never, shipped)
	before, after := fmt.Sprintf("nqMutant(%d, ", number), ")"
	if b, ok := e.(*ast.BinaryExpr); ok && moved[b.Op] != token.ILLEGAL && isPlain(b) {
		boundary := s.add(m, Boundary, shipped)
		other := s.text(b.X) + " " + moved[b.Op].String() + " " + s.text(b.Y)
		if b.Op == token.LSS || b.Op == token.GTR {
			before, after = "("+before, fmt.Sprintf(") || nqIs(%d) && %s)", boundary, other)
		} else {
			before, after = "("+before, fmt.Sprintf(") && (!nqIs(%d) || %s))", boundary, other)
		}
	}
	s.inserted = append(s.inserted, insertion{from.Offset, before}, insertion{to.Offset, after})
}

func (s *sourceFile) text(e ast.Expr) string {
	return s.source[s.set.Position(e.Pos()).Offset:s.set.Position(e.End()).Offset]
}

// add adds a mutant, unless its change is what ships, and returns its number.
func (s *sourceFile) add(m Mutant, change, shipped string) int {
	s.of.numbers++
	if change != shipped {
		m.Change, m.number = change, s.of.numbers
		s.of.mutants = append(s.of.mutants, m)
	}
	return s.of.numbers
}

// shippedAs returns what a condition always is outside of tests, if it asks whether a rule is switched off: that mutant
// is equal to the code. The conditions are on(RULE), Without&RULE == 0 and Without&RULE != 0.
func shippedAs(e ast.Expr) string {
	switch n := e.(type) {
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "on" {
			return Always
		}
	case *ast.BinaryExpr:
		if rules, ok := n.X.(*ast.BinaryExpr); !ok || rules.Op != token.AND || !isWithout(rules.X) {
			return ""
		}
		switch n.Op {
		case token.EQL:
			return Always
		case token.NEQ:
			return Never
		}
	}
	return ""
}

// isWithout reports whether an expression is a field or variable of rules that are switched off.
func isWithout(e ast.Expr) bool {
	if field, ok := e.(*ast.SelectorExpr); ok {
		e = field.Sel
	}
	name, ok := e.(*ast.Ident)
	return ok && strings.EqualFold(name.Name, "without")
}

// isPlain reports whether an expression may be evaluated twice.
func isPlain(e ast.Expr) bool {
	plain := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.Ident)
			plain = plain && ok && pureFunctions[f.Name]
		case *ast.FuncLit:
			plain = false
		}
		return plain
	})
	return plain
}

var pureFunctions = map[string]bool{
	"len": true, "cap": true, "min": true, "max": true, "int": true, "uint8": true, "uint16": true, "uint32": true,
	"uint64": true, "int64": true,
}

// result returns the instrumented text.
func (s *sourceFile) result() string {
	slices.SortStableFunc(s.inserted, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	done := 0
	for _, i := range s.inserted {
		out.WriteString(s.source[done:i.at])
		out.WriteString(i.text)
		done = i.at
	}
	out.WriteString(s.source[done:])
	return out.String()
}
