package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// smallDisk is a file system of its own for the data of the last gateway, so that it can be full.
type smallDisk struct{ dir string }

// smallDiskBytes holds two segments of a write-ahead log, contents and what was set aside.
const smallDiskBytes = "512m"

func newSmallDisk() (*smallDisk, error) {
	dir, err := os.MkdirTemp("", "netcraq-disk-")
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+smallDiskBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("mount a small file system: %w", err), os.Remove(dir))
	}
	return &smallDisk{dir}, nil
}

// remove removes it, also if a process uses it.
func (s *smallDisk) remove() error {
	return errors.Join(unix.Unmount(s.dir, unix.MNT_DETACH), os.Remove(s.dir))
}

// data is the data directory on it.
func (s *smallDisk) data() string { return filepath.Join(s.dir, "data") }

func (s *smallDisk) filler() string { return filepath.Join(s.dir, "filler") }

// fill leaves no space. No process may use the disk.
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
	return nil
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

// diskFull starts a gateway on a full disk. It has to end, and goes on when there is space.
func (d *driver) diskFull() *fault {
	c := d.keyspace
	i := len(c.services) - 1
	s, host := c.services[i], d.controllers[i]
	if d.struck(s.Name) {
		return nil
	}
	return &fault{
		hosts: []string{s.Name, host}, alone: true,
		begin: func(ctx context.Context) error {
			if err := errors.Join(s.Kill(), c.small.fill(), s.Start()); err != nil {
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
