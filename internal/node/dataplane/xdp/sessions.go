package xdp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sessionsAtOnce is the largest number of sessions whose entries are allocated when the table is made. Entries of a larger
// table are allocated one at a time, since most nodes never use them. The kernel may have none at hand in a burst; the
// program then drops a write, which its client sends again.
const sessionsAtOnce = 1 << 17

// pinnedSessions returns the number of entries and the flags of the table of sessions that is pinned in a directory;
// 0 entries: there is none.
func pinnedSessions(pin string) (entries int, flags uint32, err error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pin, "nq_sessions"), nil)
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("opening the table of sessions pinned in %s: %w", pin, err)
	}
	defer m.Close()
	return int(m.MaxEntries()), m.Flags(), nil
}

// PinnedSessions returns the maximum number of sessions of the data plane that is pinned in a directory; 0: there is none.
func PinnedSessions(pin string) (int, error) {
	entries, _, err := pinnedSessions(pin)
	return entries, err
}

// keepAllocation adapts the table of sessions to one that is pinned: earlier versions allocated the entries of every
// table at once.
func keepAllocation(sessions *ebpf.MapSpec, pin string) error {
	entries, flags, err := pinnedSessions(pin)
	if err == nil && entries > 0 {
		sessions.Flags = sessions.Flags&^unix.BPF_F_NO_PREALLOC | flags&unix.BPF_F_NO_PREALLOC
	}
	return err
}
