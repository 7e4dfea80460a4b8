package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// module is the path that the project's own imports start with.
const module = "github.com/netcraq/netcraq/"

// root is the project's directory, seen from this package's.
const root = "../../.."

// source is a Go file of the project.
type source struct {
	path   string // from the project's directory
	text   []byte
	syntax *ast.File
	tokens *token.FileSet
}

func (s source) dir() string     { return path.Dir(s.path) }
func (s source) isTest() bool    { return strings.HasSuffix(s.path, "_test.go") }
func (s source) generated() bool { return ast.IsGenerated(s.syntax) }
func (s source) line(p token.Pos) int {
	return s.tokens.Position(p).Line
}

// imports returns the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.syntax.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// files calls visit with every file of the project that has one of the extensions. It skips directories of tools and of
// build results.
func files(t *testing.T, visit func(path string, text []byte), extensions ...string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "out" || path == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		for _, extension := range extensions {
			if filepath.Ext(path) != extension {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			found++
			visit(filepath.ToSlash(path), text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Fatalf("no %v files below %s: is this the project?", extensions, root)
	}
}

// sources parses all Go files.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	files(t, func(path string, text []byte) {
		s := source{path: path, text: text, tokens: token.NewFileSet()}
		var err error
		if s.syntax, err = parser.ParseFile(s.tokens, path, text, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}, ".go")
	return all
}
