package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// toolsDir is where `make` keeps the Go version that it fetched.
const toolsDir = ".tools"

// Checkout builds a commit of a tree in a temporary worktree. remove removes it. What make prints goes to log.
func (t *Tree) Checkout(
	ctx context.Context, commit string, log io.Writer,
) (other *Tree, remove func() error, err error) {
	if _, err := t.git(ctx, "rev-parse", "--verify", "--quiet", commit+"^{commit}"); err != nil {
		return nil, nil, fmt.Errorf("there is no commit %s: %w", commit, err)
	}
	parent, err := os.MkdirTemp("", "netcraq-history-")
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(parent, "tree")
	remove = func() error {
		_, err := t.git(context.WithoutCancel(ctx), "worktree", "remove", "--force", dir)
		return errors.Join(err, os.RemoveAll(parent))
	}
	if _, err := t.git(ctx, "worktree", "add", "--detach", dir, commit); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(parent))
	}
	if err := t.build(ctx, dir, log); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("building %s: %w", commit, err), remove())
	}
	return &Tree{Dir: dir, Bench: t.Bench, Unknown: t.Unknown}, remove, nil
}

func (t *Tree) build(ctx context.Context, dir string, log io.Writer) error {
	tools, err := filepath.Abs(filepath.Join(t.Dir, toolsDir))
	if err != nil {
		return err
	}
	if _, err := os.Stat(tools); err == nil {
		if err := os.Symlink(tools, filepath.Join(dir, toolsDir)); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, "make", "--no-print-directory", "build")
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	return command.Run()
}
