package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules is the package of a gateway's decisions, whose rules the simulation switches off.
const rules = module + gateway + "/core"

// forSimulations names rules. So do the methods String, for traces.
var forSimulations = []string{"RuleNames", "(*Gateway).CheckInvariants", "(*life).checkWrites"}

// checked is a package of the product's program with its types.
type checked struct {
	files []*ast.File
	info  types.Info
}

// linked type-checks package rules and all packages that import it, as far as cmd/netcraq links them.
func linked(t *testing.T) map[string]*checked {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Imports,Export", "./cmd/netcraq")
	list.Dir = root
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles, Imports        []string
	}
	exports := make(map[string]string)
	var users []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath == rules || slices.Contains(p.Imports, rules) {
			users = append(users, p)
		}
	}
	tokens, packages := token.NewFileSet(), make(map[string]*checked)
	config := types.Config{Importer: importer.ForCompiler(tokens, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	for _, p := range users {
		c := &checked{info: types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(tokens, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.files = append(c.files, file)
		}
		if _, err := config.Check(p.ImportPath, tokens, c.files, &c.info); err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = c
	}
	return packages
}

// uses returns the functions and constants of package rules that a part of a package names.
func (c *checked) uses(part ast.Node) (names []string) {
	ast.Inspect(part, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		switch o := c.info.Uses[id].(type) {
		case *types.Func:
			if o.Pkg() != nil && o.Pkg().Path() == rules {
				names = append(names, o.Origin().FullName())
			}
		case *types.Const:
			if isRule(o) {
				names = append(names, o.Name())
			}
		}
		return true
	})
	return names
}

// isRule reports whether a constant is a rule.
func isRule(o types.Object) bool {
	c, ok := o.(*types.Const)
	return ok && types.TypeString(c.Type(), nil) == rules+".Rule"
}

// functions returns the functions of the package, and what each names.
func (c *checked) functions() map[string][]string {
	all := make(map[string][]string)
	for _, file := range c.files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && len(f.Body.List) > 0 {
				all[c.info.Defs[f.Name].(*types.Func).FullName()] = c.uses(f)
			}
		}
	}
	return all
}

// reached returns the functions of package rules that the packages of the program name, or that these name.
func reached(packages map[string]*checked, functions map[string][]string) map[string]bool {
	seen := make(map[string]bool)
	var next []string
	for path, c := range packages {
		for _, file := range c.files {
			if path != rules {
				next = append(next, c.uses(file)...)
			}
		}
	}
	for ; len(next) > 0; next = next[1:] {
		if !seen[next[0]] {
			seen[next[0]] = true
			next = append(next, functions[next[0]]...)
		}
	}
	return seen
}

// TestSimulatedCodeIsShippedCode: the product's program calls every function that decides for a gateway, so the simulation drives no
// code of its own. In particular every rule that the simulation can switch off changes a function that the product calls.
func TestSimulatedCodeIsShippedCode(t *testing.T) {
	packages := linked(t)
	core := packages[rules]
	functions := core.functions()
	called := reached(packages, functions)
	switched := make(map[string][]string)
	for name, uses := range functions {
		short := strings.ReplaceAll(name, rules+".", "")
		if !called[name] && !slices.Contains(forSimulations, short) && !strings.HasSuffix(name, ").String") {
			t.Errorf("nothing in cmd/netcraq calls %s of %s", short, rules)
		}
		for _, used := range uses {
			if called[name] && !slices.Contains(switched[used], short) {
				switched[used] = append(switched[used], short)
			}
		}
	}
	n := 0
	for _, o := range core.info.Defs {
		if !isRule(o) {
			continue
		}
		n++
		if in := switched[o.Name()]; len(in) == 0 {
			t.Errorf("rule %s changes no function that cmd/netcraq calls", o.Name())
		} else {
			slices.Sort(in)
			t.Logf("%s: %s", o.Name(), strings.Join(in, " "))
		}
	}
	if n < 20 || len(functions) < 100 {
		t.Errorf("%d rules, %d functions: is it the gateway's core?", n, len(functions))
	}
}
