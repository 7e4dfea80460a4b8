// Package owned makes directories of files or kernel objects that belong to one process. If a process is killed before it
// removes its directories, the next process that makes such a directory removes them.
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

// Dir makes a directory below parent. Its name is the prefix, which ends with a hyphen, and the number of this process.
// Before that, Dir calls discard for each directory with the prefix whose process is gone, and ignores its errors.
func Dir(parent, prefix string, discard func(dir string) error) (string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), prefix)
		if owner, _, found := strings.Cut(rest, "-"); ok && found && dead(owner) {
			_ = discard(filepath.Join(parent, entry.Name())) // the next call tries it again
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// dead reports whether the process with this number does not exist or is a zombie.
func dead(pid string) bool {
	if n, err := strconv.Atoi(pid); err != nil || n < 1 {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // after the name, which may contain any character
	return bytes.HasPrefix(state, []byte(" Z"))
}
