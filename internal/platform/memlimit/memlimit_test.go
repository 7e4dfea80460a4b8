package memlimit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind: the lowest limit of the process's group and of those above it counts, in both versions of control groups.
func TestFind(t *testing.T) {
	const total, one, two = 4096 << 20, " - cgroup none rw,memory", " - cgroup2 none rw"
	for name, test := range map[string]struct {
		cgroup, mount string
		files         map[string]string // below the mount
		want          int64
		limited       bool
	}{
		"no groups": {"", "", nil, total, false},
		"version 2": {
			"0::/a/b", "/ MOUNT rw" + two,
			map[string]string{"a/b/memory.max": "1073741824"}, 1 << 30, true,
		},
		"none": {"0::/a/b", "/ MOUNT rw" + two, map[string]string{"a/b/memory.max": "max"}, total, false},
		"above": {
			"0::/a/b", "/ MOUNT rw" + two,
			map[string]string{"a/memory.max": "5000", "a/b/memory.max": "max"}, 5000, true,
		},
		"container":  {"0::/", "/ MOUNT rw" + two, map[string]string{"memory.max": "7000"}, 7000, true},
		"other root": {"0::/pods/x", "/pods/x MOUNT rw" + two, map[string]string{"memory.max": "7000"}, 7000, true},
		"version 1": {
			"4:cpu,memory:/k", "/ MOUNT rw" + one,
			map[string]string{"k/memory.limit_in_bytes": "9000"}, 9000, true,
		},
		"version 1 not": {
			"4:memory:/k", "/ MOUNT rw" + one,
			map[string]string{"k/memory.limit_in_bytes": "9223372036854771712"}, total, false,
		},
		"another": {
			"4:cpu:/k", "/ MOUNT rw - cgroup none rw,cpu",
			map[string]string{"k/memory.limit_in_bytes": "9000"}, total, false,
		},
		"beyond": {
			"0::/a", "/ MOUNT rw" + two,
			map[string]string{"a/memory.max": "99999999999999"}, total, false,
		},
	} {
		proc, mount := t.TempDir(), t.TempDir()
		write(t, filepath.Join(proc, "meminfo"), "MemTotal:        4194304 kB\nMemFree: 1 kB\n")
		write(t, filepath.Join(proc, "self", "cgroup"), test.cgroup+"\n")
		write(t, filepath.Join(proc, "self", "mountinfo"), "26 25 0:23 "+strings.Replace(test.mount, "MOUNT", mount, 1)+"\n")
		for file, text := range test.files {
			write(t, filepath.Join(mount, file), text+"\n")
		}
		if n, limited := find(proc); n != test.want || limited != test.limited {
			t.Errorf("%s: %d, %v; want %d, %v", name, n, limited, test.want, test.limited)
		}
	}
	if n, limited := find(t.TempDir()); n != 0 || limited {
		t.Errorf("without /proc: %d, %v", n, limited)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
