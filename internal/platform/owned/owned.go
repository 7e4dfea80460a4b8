// Package owned makes directories, of files or of kernel objects, that are cleared away even if the process that made them is killed before it
// can: by the next one that makes such.
package owned

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Dir makes a directory below parent whose name says that it is this process's, after a prefix that ends with a hyphen. Directories of the
// same prefix whose processes were killed before they could remove them are given to discard first, which may fail.
func Dir(parent, prefix string, discard func(dir string) error) (string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), prefix)
		if owner, _, found := strings.Cut(rest, "-"); ok && found && dead(owner) {
			_ = discard(filepath.Join(parent, entry.Name())) // what is left now is tried again the next time
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// dead reports whether a process, by its number, is no more, or does nothing any more but wait for its parent to notice.
func dead(pid string) bool {
	if n, err := strconv.Atoi(pid); err != nil || n < 1 {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // after the name, which may hold anything
	return bytes.HasPrefix(state, []byte(" Z"))
}
