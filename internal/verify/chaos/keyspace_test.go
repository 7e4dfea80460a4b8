package chaos

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// After all nodes were emptied, the controllers may take the chains for whole until they hear of it: the operator goes
// on until each shard has another epoch.
func TestFormAgainAwaitsTheLoss(t *testing.T) {
	asked, before := 0, []uint32{7, 8}
	now := []uint32{7, 8}
	c := keyspaceControl{o: &KeyspaceOptions{AcceptLosses: func(context.Context, *lab.Lab) (whole bool, err error) {
		switch asked++; asked {
		case 2:
			now[0]++
		case 3:
			now[1]++
			return false, nil // they are being filled
		}
		return true, nil
	}}}
	if err := c.formAgain(t.Context(), before, func() []uint32 { return now }); err != nil || asked != 4 {
		t.Errorf("the operator looked %d times: %v", asked, err)
	}
}

// A full disk takes nothing, not even behind a write-ahead log that had space in advance, and the log is as it was.
func TestSmallDisk(t *testing.T) {
	roottest.Need(t)
	s, err := newSmallDisk()
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove() //nolint:errcheck // the test has failed otherwise
	segment := filepath.Join(s.data(), "wal", "0.wal")
	text := append([]byte("entries"), make([]byte, 1<<20)...)
	err = errors.Join(os.MkdirAll(filepath.Dir(segment), 0o700), os.WriteFile(segment, text, 0o600), s.fill())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(segment); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d: %v", len(got), len(text), err)
	}
	f, err := os.OpenFile(segment, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const behind = 512 << 10
	if _, err := f.WriteAt(text, behind); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a write: %v", err)
	}
	if err := s.empty(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, behind); err != nil {
		t.Errorf("with space: %v", err)
	}
}

// A frozen disk syncs when it is thawed.
func TestFrozenDisk(t *testing.T) {
	roottest.Need(t)
	s, err := newSmallDisk()
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove() //nolint:errcheck // the test has failed otherwise
	if err := errors.Join(os.Mkdir(s.data(), 0o700), s.freeze()); err != nil {
		t.Fatal(err)
	}
	if err := s.freeze(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("it was not frozen: %v", err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(filepath.Join(s.data(), "a"), nil, 0o600) }()
	if err := s.thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// A fault is injected and ended whole when the trial is over meanwhile: the checks that follow need the cluster.
func TestFaultsEndAfterTheTrial(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := &driver{setup: &Setup{}, count: make(map[string]int)}
	f := &fault{begin: context.Context.Err, end: context.Context.Err}
	if err := errors.Join(d.begin(over, f), d.end(over, f)); err != nil {
		t.Error(err)
	}
}

// darkSource is a follower whose source has lost its power: it has a newer map when it is told to look elsewhere.
type darkSource struct {
	client.Follower
	epoch uint32
}

func (f *darkSource) Map() *client.Map {
	return &client.Map{Version: uint64(f.epoch), Chains: []topology.MapChain{{Epoch: f.epoch}}, ByShard: []uint32{0}}
}

func (f *darkSource) Stale(uint64) { f.epoch++ }

// The trial hears of new epochs although the source that it has listened to went dark.
func TestEpochsAreThePresentOnes(t *testing.T) {
	f := &darkSource{epoch: 7}
	before := epochs(f)
	if now := epochs(f); before[0] != 7 || unchanged(before, now) != 0 {
		t.Errorf("epochs %v, then %v", before, now)
	}
}
