package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"
)

// sources counts what developers and readers have to know.
func (l *Line) sources(ctx context.Context, tree *Tree) error {
	names, err := tree.git(ctx, "ls-files", "-z")
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.TrimSuffix(names, "\x00"), "\x00") {
		count, figure := counterOf(name)
		if count == nil {
			continue
		}
		path := filepath.Join(tree.Dir, name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue // deleted, or a link to a file that counts itself
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		l.Figures[figure] += float64(count(text))
	}
	return l.dependencies(ctx, tree)
}

// dependencies counts the modules that the product's module requires itself.
func (l *Line) dependencies(ctx context.Context, tree *Tree) error {
	command := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	command.Dir = tree.Dir
	text, err := command.Output()
	if err != nil {
		return fmt.Errorf("go mod edit: %w%s", err, said(err))
	}
	var module struct{ Require []struct{ Indirect bool } }
	if err := json.Unmarshal(text, &module); err != nil {
		return fmt.Errorf("go mod edit: %w", err)
	}
	for _, r := range module.Require {
		if !r.Indirect {
			l.Figures["dependencies"]++
		}
	}
	return nil
}

// counterOf returns how a file counts, and where: lines of the product, of its tests and of the evaluation, and
// words of documents. Generated files do not count.
func counterOf(name string) (count func([]byte) int, figure string) {
	generated := strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, "_gen.go") || strings.Contains(name, ".gen.")
	switch extension := filepath.Ext(name); {
	case generated:
	case extension == ".md":
		return words, "words"
	case extension == ".go" && strings.HasSuffix(name, "_test.go"):
		return lines, "lines/go-tests"
	case extension == ".go" && strings.HasPrefix(name, "eval/"):
		return lines, "lines/go-evaluation"
	case extension == ".go":
		return lines, "lines/go"
	case strings.HasPrefix(name, "bpf/"):
		return lines, "lines/bpf"
	}
	return nil, ""
}

func lines(text []byte) int { return bytes.Count(text, []byte("\n")) }

// words counts fields with a letter or a digit: bars of tables and other marks are no words.
func words(text []byte) (n int) {
	for field := range bytes.FieldsSeq(text) {
		if bytes.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}
