// Package trust checks who may change or read a file that this process believes.
package trust

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Permissions that others than the owner must not have.
const (
	changes fs.FileMode = 0o022 // group and others write
	secrets fs.FileMode = 0o037 // others read too; a group may read, as those of containers do
)

// CheckOwner refuses a file or directory that another user than this one or root owns or may write.
func CheckOwner(path string) error {
	info, err := check(path)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSticky != 0: // as /tmp: others add to it, but do not replace
		return nil
	case info.Mode().Perm()&changes != 0:
		return fmt.Errorf("%s may be written by other users (%v): run chmod go-w on it", path, info.Mode())
	}
	return nil
}

// CheckSecret refuses a file that another user than this one or root owns, or that others may read.
func CheckSecret(path string) error {
	info, err := check(path)
	if err == nil && info.Mode().Perm()&secrets != 0 {
		err = fmt.Errorf("%s may be read or written by other users (%v): run chmod 600 on it", path, info.Mode())
	}
	return err
}

func check(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to another user (uid %d)", path, owner.Uid)
	}
	return info, nil
}
