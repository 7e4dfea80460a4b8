package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// function is a function of the project, in Go or C.
type function struct {
	file, name      string
	receiver, scope string // type of a method, or ""; package in Go
	body            string
}

// isNamed reports whether a page may mean the function by a name: f, T.f, package.f or package.T.f.
func (f *function) isNamed(name string) bool {
	parts := strings.Split(name, ".")
	last := len(parts) - 1
	if f.name != parts[last] {
		return false
	}
	switch {
	case last == 0:
		return true
	case last == 1 && f.receiver == "":
		return parts[0] == f.scope
	case last == 1:
		return parts[0] == f.receiver
	}
	return last == 2 && parts[1] == f.receiver && parts[0] == f.scope
}

// calls reports whether the function calls one of this name.
func (f *function) calls(name string) bool {
	name = name[strings.LastIndex(name, ".")+1:]
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\(`).MatchString(f.body)
}

// definedInC is a function of the BPF sources: its name stands in a line that begins it, its end is a brace alone.
var definedInC = regexp.MustCompile(`(?ms)^[a-z_][\w \t*\n]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}`)

func functions(t *testing.T) (all []function) {
	t.Helper()
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			from, to := s.tokens.Position(f.Body.Pos()).Offset, s.tokens.Position(f.Body.End()).Offset
			all = append(all, function{
				s.path, f.Name.Name, receiverOf(f), s.syntax.Name.Name, string(s.text[from:to]),
			})
		}
	}
	files(t, func(name string, text []byte) {
		if !strings.HasPrefix(name, "bpf/") {
			return
		}
		for _, match := range definedInC.FindAllSubmatch(text, -1) {
			all = append(all, function{file: name, name: string(match[1]), body: string(match[2])})
		}
	}, ".h", ".c")
	return all
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	e := f.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if generic, ok := e.(*ast.IndexExpr); ok {
		e = generic.X
	}
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// In a walk "`f` → `g` ([file](file))" says that f calls g, which is in the file. Names of constants are upper-case.
var (
	walkOf     = regexp.MustCompile(`(?ms)^## (A [^\n]*)\n(.*?)(?:^## |\z)`)
	walkWords  = regexp.MustCompile("(?s)`([^`]+)`(?:\\s+\\(\\[[^\\]]*\\]\\(([^)#]*)\\)\\))?|(→)|([.;:])\\s")
	walkedName = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z]\w*){0,2}$`)
)

// The walks of ARCHITECTURE.md name functions that exist, where they are, and whom they call.
func TestWalksAreTheCode(t *testing.T) {
	const page = "ARCHITECTURE.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	w := &walker{all: functions(t)}
	walks := 0
	for rest := string(text); ; walks++ {
		at := walkOf.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		for _, fault := range w.walk(rest[at[4]:at[5]]) {
			t.Errorf("%s, %q: %s", page, rest[at[2]:at[3]], fault)
		}
		rest = rest[at[5]:]
	}
	if walks < 5 || w.steps < 30 {
		t.Errorf("%s: %d walks of %d steps: has the form of a walk changed?", page, walks, w.steps)
	}
}

// walker follows a walk.
type walker struct {
	all   []function
	steps int // calls that were found
}

// named returns the functions that a name may mean, in a file if that is not "".
func (w *walker) named(name, file string) (found []function) {
	for _, f := range w.all {
		if f.isNamed(name) && (file == "" || f.file == file) {
			found = append(found, f)
		}
	}
	return found
}

// walk says what is wrong with a walk.
func (w *walker) walk(text string) (faults []string) {
	var before []function // the functions that the last name may mean
	arrow, last := false, ""
	for _, word := range walkWords.FindAllStringSubmatch(text, -1) {
		name, file := word[1], word[2]
		switch {
		case word[3] != "":
			arrow = true
			continue
		case word[4] != "":
			arrow, before = false, nil
			continue
		case !walkedName.MatchString(name) || name == strings.ToUpper(name):
			continue
		}
		found := w.named(name, file)
		if len(found) == 0 {
			faults = append(faults, "there is no function "+name+" in the file "+file)
		}
		if arrow && len(before) > 0 {
			callers, callees := calling(before, name), nearest(before, found)
			if len(callers) == 0 {
				faults = append(faults, last+" does not call "+name)
			}
			w.steps++
			found = callees
		}
		before, last, arrow = found, name, false
	}
	return faults
}

// calling returns the functions that call one of this name.
func calling(all []function, name string) (found []function) {
	for _, f := range all {
		if f.calls(name) {
			found = append(found, f)
		}
	}
	return found
}

// nearest returns the functions in the folders of callers, or all if there is none.
func nearest(callers, all []function) (found []function) {
	for _, f := range all {
		for _, c := range callers {
			if path.Dir(c.file) == path.Dir(f.file) {
				found = append(found, f)
				break
			}
		}
	}
	if len(found) == 0 {
		return all
	}
	return found
}
