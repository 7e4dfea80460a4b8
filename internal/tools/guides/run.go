package guides

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// annotations are the directives for the next block.
type annotations struct {
	mode string // run, background, keep, file, skip
	name string
	vary *regexp.Regexp
	not  *regexp.Regexp
}

// Run runs a document's commands in a directory with the programs below bin. It returns all differences from the document.
func Run(text, dir string) (wrong []error, ran int) {
	steps, err := Parse(text)
	if err != nil {
		return []error{err}, 0
	}
	s, err := begin(dir, false)
	if err != nil {
		return []error{err}, 0
	}
	defer func() { s.close() }()
	var next annotations
	fail := func(line int, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", line, err))
		}
	}
	for _, step := range steps {
		if s.hangs {
			break
		}
		if step.Name == "user" {
			s.close()
			s, err = begin(dir, true)
			if err != nil {
				return append(wrong, err), ran
			}
			continue
		}
		if step.Name != "" {
			fail(step.Line, next.take(&step, s))
			continue
		}
		n, err := next.block(&step, s, fail)
		ran += n
		fail(step.Line, err)
		next = annotations{}
	}
	return wrong, ran
}

// take obeys a directive, or keeps it for the next block.
func (a *annotations) take(step *Step, s *session) (err error) {
	switch step.Name {
	case "skip":
		a.mode = step.Name
		if step.Argument == "" {
			err = fmt.Errorf("say why the block is not run")
		}
	case "run", "background", "keep":
		a.mode = step.Name
	case "file":
		a.mode, a.name = step.Name, step.Argument
	case "vary":
		a.vary, err = regexp.Compile(step.Argument)
	case "not":
		a.not, err = regexp.Compile(step.Argument)
	case "do":
		out, status, failed := s.run(step.Argument)
		if err = failed; err == nil && status != 0 {
			err = fmt.Errorf("%s: status %d: %s", step.Argument, status, strings.Join(out, "\n"))
		}
	case "end":
		err = s.interrupt()
	default:
		err = fmt.Errorf("there is no directive %q", step.Name)
	}
	return err
}

// block runs a block, and returns how many commands it ran.
func (a *annotations) block(step *Step, s *session, fail func(int, error)) (ran int, err error) {
	switch {
	case a.mode == "skip":
		return 0, nil
	case a.mode == "file":
		return 0, os.WriteFile(filepath.Join(s.shell.Dir, a.name), []byte(strings.Join(step.Text, "\n")+"\n"), 0o644)
	case a.mode == "" && (step.Language != "" || len(step.Text) == 0):
		return 0, nil
	case a.mode == "" && !prompted(step.Text[0]):
		return 0, fmt.Errorf("the block has no prompt: say with a directive whether it is run, or why not")
	}
	for _, c := range step.commands(a.mode == "run" || a.mode == "background") {
		if s.hangs || a.not != nil && a.not.MatchString(c.text) {
			continue
		}
		ran++
		switch a.mode {
		case "background":
			_, _, err = s.run("{ " + c.text + "\n} >/dev/null 2>&1 & true")
		case "keep":
			err = s.keep(c.text, c.want, a.vary)
		default:
			err = a.compare(&c, s)
		}
		if err != nil {
			fail(c.line, fmt.Errorf("%s: %w", c.text, err))
		}
	}
	return ran, nil
}

// compare runs one command. Where no output is shown any is right; a command may fail if the document shows how.
func (a *annotations) compare(c *command, s *session) error {
	out, status, err := s.run(c.text)
	if err != nil {
		return err
	}
	want, got := Clean(c.want, a.vary), Clean(out, a.vary)
	if len(want) > 0 && !Matches(want, got) {
		return differs(want, got)
	}
	if status != 0 && !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, "netcraq: ") }) {
		return fmt.Errorf("status %d: %s", status, strings.Join(out, "\n"))
	}
	return nil
}
