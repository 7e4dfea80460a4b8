package thread

import (
	"errors"
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
