package xdp

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/verify/conformance"
)

// TestOlderSessions takes over a table of sessions whose entries were all allocated at once, as earlier versions made it.
func TestOlderSessions(t *testing.T) {
	o := testOptions(t)
	o.Chain.MaxSessions = 2 * sessionsAtOnce
	inNamespace(t, func() error {
		if err := makePinDirectory(o.Pin); err != nil {
			return err
		}
		spec, err := prepare(o.Chain, constantsOf(conformance.Me, o.Chain))
		if err != nil {
			return err
		}
		older := spec.Maps["nq_sessions"]
		if older.Flags != unix.BPF_F_NO_PREALLOC {
			return fmt.Errorf("a new table has the flags %#x", older.Flags)
		}
		older.Flags = 0
		m, err := ebpf.NewMap(older)
		if err != nil {
			return err
		}
		defer m.Close()
		if err := m.Pin(filepath.Join(o.Pin, "nq_sessions")); err != nil {
			return err
		}
		if entries, err := PinnedSessions(o.Pin); err != nil || entries != o.Chain.MaxSessions {
			return fmt.Errorf("%d entries are pinned, %w", entries, err)
		}
		objects, err := load(o.Chain, constantsOf(conformance.Me, o.Chain), o.Pin, 0)
		if err != nil {
			return err
		}
		defer objects.close()
		if flags := objects.Sessions.Flags(); flags != 0 {
			return fmt.Errorf("the table that was taken over has the flags %#x", flags)
		}
		return nil
	})
}

// TestNewSessions takes over a table whose entries are allocated one at a time.
func TestNewSessions(t *testing.T) {
	o := testOptions(t)
	o.Chain.MaxSessions = 2 * sessionsAtOnce
	inNamespace(t, func() error {
		if entries, err := PinnedSessions(o.Pin); err != nil || entries != 0 {
			return fmt.Errorf("%d entries are pinned before the first start, %w", entries, err)
		}
		for range 2 {
			p, err := Open(o)
			if err != nil {
				return err
			}
			flags := p.objects.Sessions.Flags()
			if err := p.Close(); err != nil || flags != unix.BPF_F_NO_PREALLOC {
				return errors.Join(fmt.Errorf("the table has the flags %#x", flags), err)
			}
		}
		return nil
	})
}
