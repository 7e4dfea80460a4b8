package thread

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThreadStaysTheSame(t *testing.T) {
	var first int
	kept, err := Start(func() error { first = unix.Gettid(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := kept.Do(func() error {
			if unix.Gettid() != first {
				return errors.New("on another thread")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	kept.Close()
	want := errors.New("refused")
	if _, err := Start(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Start returned %v", err)
	}
}

// The first thread never ends, and neither would what f leaves on it.
func TestDoAvoidsTheFirstThread(t *testing.T) {
	for range 200 {
		if err := Do(func() error {
			if unix.Gettid() == unix.Getpid() {
				return errors.New("on the first thread")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIn(t *testing.T) {
	if err := In("", func() error { return nil }); err != nil {
		t.Errorf("staying in the process's namespace: %v", err)
	}
	if err := In("/proc/self/ns/none", func() error { return nil }); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a namespace that does not exist: %v", err)
	}
}

// A FIFO would block whoever opens it for reading.
func TestOpenNamespace(t *testing.T) {
	file, err := OpenNamespace("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	dir := t.TempDir()
	fifo, plain := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(plain, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, plain, dir, "/dev/null", "/proc/self/ns/mnt", "/proc/self/status"} {
		if _, err := OpenNamespace(path); !errors.Is(err, ErrNoNamespace) {
			t.Errorf("%s: %v", path, err)
		}
		if err := In(path, func() error { return nil }); !errors.Is(err, ErrNoNamespace) {
			t.Errorf("entering %s: %v", path, err)
		}
	}
	if _, err := OpenNamespace(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path of nothing: %v", err)
	}
}
