package xdp

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LockedError says that a process looks after the data plane pinned in a directory.
type LockedError struct {
	Pin string
	PID int // 0: not known
}

func (e *LockedError) Error() string {
	by := "an agent"
	if e.PID != 0 {
		by = fmt.Sprintf("an agent (process %d)", e.PID)
	}
	return fmt.Sprintf("%s looks after the data plane pinned at %s: end it first", by, e.Pin)
}

// Lock makes this process the one that looks after the data plane pinned in the directory, until release is called or
// the process is gone. If another one does, the error is a LockedError.
func Lock(pin string) (release func() error, err error) {
	dir, err := os.Open(pin)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		locked := &LockedError{Pin: pin, PID: lockedBy(dir)}
		return nil, errors.Join(locked, dir.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", pin, err), dir.Close())
	}
	return dir.Close, nil
}

// lockedBy finds the process that has a file locked; 0: it is not to be seen.
func lockedBy(file *os.File) int {
	var stat unix.Stat_t
	if unix.Fstat(int(file.Fd()), &stat) != nil {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	inode := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range strings.Lines(string(locks)) { // 1: FLOCK  ADVISORY  WRITE 708 00:13:292 0 EOF
		fields := strings.Fields(line)
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == inode {
			pid, _ := strconv.Atoi(fields[4])
			return pid
		}
	}
	return 0
}
