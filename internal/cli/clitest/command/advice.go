package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreign are flags of other programs that our texts and command lines name.
var foreign = []string{
	"net", "file", "help", "version", // nsenter, pg_dump; every command's
	"kubeconfig", // kubectl
	"user",       // etcdctl
}

var (
	flagNamed    = regexp.MustCompile("(?:^|[ `(\"])--([a-z][a-z0-9-]+)")
	commandNamed = regexp.MustCompile("`netcraq ([a-z][a-z-]*)|netcraq ([a-z]+-[a-z-]+)")
)

// CheckAdvice fails if a text below a directory names a flag or a command that neither the commands of this package have
// nor further ones. It leaves out the directories elsewhere, whose texts are command lines of other programs.
func CheckAdvice(t *testing.T, top string, elsewhere []string, further ...*cobra.Command) {
	t.Helper()
	root := &cobra.Command{Use: "netcraq"}
	root.AddCommand(slices.Concat(all(), further)...)
	flags, commands := make(map[string]bool), make(map[string]bool)
	for _, name := range foreign {
		flags[name] = true
	}
	gather(root, "", flags, commands)
	checkTypes(t, root)
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != top || name == "out") { // copies of others' sources
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") ||
			slices.ContainsFunc(elsewhere, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range flagNamed.FindAllStringSubmatch(text, -1) {
				if !flags[m[1]] {
					t.Errorf("%s: there is no flag --%s: %q", files.Position(literal.Pos()), m[1], text)
				}
			}
			for _, m := range commandNamed.FindAllStringSubmatch(text, -1) {
				if name := m[1] + m[2]; !commands[name] && name != "help" {
					t.Errorf("%s: there is no command %s: %q", files.Position(literal.Pos()), name, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// gather notes the flags and commands below a command.
func gather(c *cobra.Command, above string, flags, commands map[string]bool) {
	note := func(f *pflag.Flag) { flags[f.Name] = true }
	c.Flags().VisitAll(note)
	c.PersistentFlags().VisitAll(note)
	for _, sub := range c.Commands() {
		name := strings.TrimSpace(above + " " + sub.Name())
		commands[name] = true
		gather(sub, name, flags, commands)
	}
}

// checkTypes fails if a flag's type in the help is more than a word: back-quotes in its text name the type.
func checkTypes(t *testing.T, c *cobra.Command) {
	t.Helper()
	check := func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
			t.Errorf("the flag --%s of %s has the type %q", f.Name, c.CommandPath(), name)
		}
	}
	c.Flags().VisitAll(check)
	c.PersistentFlags().VisitAll(check)
	for _, sub := range c.Commands() {
		checkTypes(t, sub)
	}
}
