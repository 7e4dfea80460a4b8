package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrTaken says that another cluster that runs has the place; its clients would go astray.
var ErrTaken = errors.New("this cluster file belongs to another cluster that runs: end that one first")

// publishedMark begins a published file. A file that begins otherwise was put there by a person and is left alone.
const publishedMark = "# Written by netcraq; it is removed when the cluster ends.\n"

// Publish writes a cluster file for as long as this process keeps it: until withdraw is called, or the process is gone and
// another cluster wants the place.
func Publish(path string, c *Cluster) (withdraw func() error, err error) {
	text, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	if err := makeFree(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	withdraw = func() error {
		err := errors.Join(os.Remove(path), file.Close())
		os.Remove(filepath.Dir(path)) // fails, as it should, unless it is empty
		return err
	}
	if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		_, err = file.WriteString(publishedMark + string(text))
	}
	if err != nil {
		return nil, errors.Join(err, withdraw())
	}
	return withdraw, nil
}

// PublishLink makes path point to a cluster file, for as long as that exists.
func PublishLink(path, file string) error {
	if err := makeFree(path); err != nil {
		return err
	}
	return os.Symlink(file, path)
}

// WithdrawLink undoes [PublishLink], if path still points to that file.
func WithdrawLink(path, file string) error {
	if !Published(path, file) {
		return nil
	}
	return os.Remove(path)
}

// Published reports whether path points to a cluster file.
func Published(path, file string) bool {
	target, err := os.Readlink(path)
	return err == nil && target == file
}

// makeFree removes a stale map of an earlier cluster at path.
func makeFree(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", path, ErrTaken)
		}
		return os.Remove(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	mark := make([]byte, len(publishedMark))
	_, _ = file.Read(mark) // a shorter file has no mark
	if !bytes.Equal(mark, []byte(publishedMark)) || unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return fmt.Errorf("%s: %w", path, ErrTaken)
	}
	return os.Remove(path)
}
