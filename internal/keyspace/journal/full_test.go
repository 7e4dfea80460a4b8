package journal

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a full or read-only file system the journal says what to do. What it had is there when there is space again.
func TestFull(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs root, to mount a small file system")
		}
		t.Skip("needs root, to mount a small file system")
	}
	smallSegments(t)
	dir := t.TempDir()
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=200k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	j := open(t, dir)
	n := uint64(0)
	var err error
	for ; err == nil && n < 1000; n++ {
		must(t, j.Append([]Entry{{1, bytes.Repeat([]byte{'x'}, 1000)}}))
		err = j.Flush()
	}
	if err == nil || !strings.Contains(err.Error(), "give its file system space") {
		t.Fatalf("%v after %d entries", err, n)
	}
	if again := j.Flush(); again == nil {
		t.Error("it writes on after an error")
	}
	must(t, j.Close(), unix.Mount("none", dir, "", unix.MS_REMOUNT, "size=1m"))
	j = open(t, dir)
	if last := j.Stored().Last.Index; last < n-1 || last > n {
		t.Errorf("%d entries of %d", last, n)
	}
	must(t, j.Append([]Entry{{1, []byte("on")}}), j.Flush())
	want := read(t, j)
	must(t, j.Close(), unix.Mount("none", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if _, err := Open(dir, "default", 7, "a"); err == nil || !strings.Contains(err.Error(), "make it writable") {
		t.Errorf("read-only: %v", err)
	}
	must(t, unix.Mount("none", dir, "", unix.MS_REMOUNT, ""))
	j = open(t, dir)
	if got := read(t, j); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got.Stored)
	}
	must(t, j.Close())
}
