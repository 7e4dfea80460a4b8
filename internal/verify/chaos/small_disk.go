package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// smallDisk is a file system of its own for the data of the last gateway, so that it can be full or freeze: ext4 in a
// file in memory.
type smallDisk struct{ memory string }

// smallDiskBytes holds two segments of a write-ahead log, contents and what was set aside.
const smallDiskBytes = 512 << 20

func newSmallDisk() (_ *smallDisk, err error) {
	memory, err := os.MkdirTemp("", "netcraq-disk-")
	if err != nil {
		return nil, err
	}
	s := &smallDisk{memory}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make a small file system: %w", err), s.remove())
		}
	}()
	if err := unix.Mount("none", memory, "tmpfs", 0, fmt.Sprintf("size=%d", smallDiskBytes+1<<20)); err != nil {
		return nil, err
	}
	image := filepath.Join(memory, "image")
	err = errors.Join(os.Mkdir(s.dir(), 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, smallDiskBytes))
	if err != nil {
		return nil, err
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, s.dir()}} {
		if said, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", command[0], err, bytes.TrimSpace(said))
		}
	}
	return s, nil
}

// remove removes it, also if a process uses it.
func (s *smallDisk) remove() error {
	_ = s.thaw() // it may not be frozen
	_ = unix.Unmount(s.dir(), unix.MNT_DETACH)
	return errors.Join(unix.Unmount(s.memory, unix.MNT_DETACH), os.Remove(s.memory))
}

func (s *smallDisk) dir() string { return filepath.Join(s.memory, "disk") }

// data is the data directory on it.
func (s *smallDisk) data() string { return filepath.Join(s.dir(), "data") }

func (s *smallDisk) filler() string { return filepath.Join(s.dir(), "filler") }

// Requests of the kernel that package unix does not name.
const (
	requestFreeze = 0xc0045877 // FIFREEZE
	requestThaw   = 0xc0045878 // FITHAW
)

// freeze has all writes and syncs wait until thaw.
func (s *smallDisk) freeze() error { return s.control(requestFreeze) }

func (s *smallDisk) thaw() error { return s.control(requestThaw) }

func (s *smallDisk) control(request uint) error {
	f, err := os.Open(s.dir())
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetInt(int(f.Fd()), request, 0)
}

// fill leaves no space. No process may write to the disk meanwhile.
func (s *smallDisk) fill() error {
	if err := s.giveBack(); err != nil {
		return err
	}
	f, err := os.Create(s.filler())
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err = f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill a disk: %w", err)
	}
	return f.Sync()
}

// giveBack frees the space that write-ahead logs have allocated in advance: they would go on with it.
func (s *smallDisk) giveBack() error {
	segments, err := filepath.Glob(filepath.Join(s.data(), "wal", "*"))
	for _, name := range segments {
		text, failed := os.ReadFile(name)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		end := len(bytes.TrimRight(text, "\x00"))
		err = errors.Join(err, os.Truncate(name, int64(end)), os.Truncate(name, int64(len(text))))
	}
	return err
}

// empty frees the space.
func (s *smallDisk) empty() error { return os.Remove(s.filler()) }

// diskFull fills the disk of a gateway that runs, in the middle of a segment of its write-ahead log, or of one that
// starts. It has to end, and goes on when there is space.
func (d *driver) diskFull() *fault {
	c := d.keyspace
	i := len(c.services) - 1
	s, host := c.services[i], d.controllers[i]
	if d.struck(s.Name) {
		return nil
	}
	before, after := s.Kill, s.Start
	if d.rng.IntN(2) == 0 {
		before, after = s.Pause, s.Resume
	}
	return &fault{
		hosts: []string{s.Name, host}, alone: true,
		begin: func(ctx context.Context) error {
			if err := errors.Join(before(), c.small.fill(), after()); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, replacePatience)
			defer cancel()
			for s.Alive() {
				if !retry.Sleep(ctx, look) {
					return errors.New("a gateway goes on although its disk is full")
				}
			}
			return nil
		},
		end: func(ctx context.Context) error { return errors.Join(c.small.empty(), c.startAgain(ctx, i)) },
	}
}

// diskFrozen has the disk of a gateway take seconds for a write.
func (d *driver) diskFrozen() *fault {
	c := d.keyspace
	s := c.services[len(c.services)-1]
	if d.struck(s.Name) {
		return nil
	}
	return &fault{
		hosts: []string{s.Name},
		begin: func(context.Context) error { return c.small.freeze() },
		end:   func(context.Context) error { return c.small.thaw() },
	}
}
