package nearby

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/wire"
)

var me = netip.MustParseAddrPort("10.77.0.2:4411")

// machine is a network namespace with a node at [me], which is its own chain.
type machine struct {
	*xdp.Bed
	plane *xdp.Plane
	pin   string
}

func newMachine(t *testing.T, pin string) *machine {
	t.Helper()
	roottest.Need(t)
	bed, err := xdp.NewBedAt(netip.PrefixFrom(me.Addr(), 24))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Bed: bed, pin: pin}
	m.start(t)
	t.Cleanup(func() {
		m.remove(t)
		m.Close()
	})
	return m
}

// start starts the node.
func (m *machine) start(t *testing.T) {
	t.Helper()
	err := m.Do(func() (err error) {
		if m.plane, err = xdp.Open(xdp.Options{
			Node: me, Ports: []string{"near"}, Pin: m.pin,
			Chain: chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 16, MaxSessions: 16},
		}); err != nil {
			return err
		}
		alone := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{me}}
		err = m.plane.ConfigureAll(map[uint16]chain.ShardConfig{0: alone})
		return errors.Join(err, m.plane.Grant(0, dataplane.Forever))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// remove ends the node with all that it stores.
func (m *machine) remove(t *testing.T) {
	t.Helper()
	if m.plane == nil {
		return
	}
	if err := errors.Join(m.plane.Close(), xdp.Remove(m.pin)); err != nil {
		t.Error(err)
	}
	m.plane = nil
}

// newPins makes a directory for pins.
func newPins(t *testing.T, name string) string {
	t.Helper()
	dir := fmt.Sprintf("/sys/fs/bpf/netcraq-nearby-%d/%s", os.Getpid(), name)
	t.Cleanup(func() {
		_ = os.Remove(dir)
		_ = os.Remove(filepath.Dir(dir)) // another test may still use it
	})
	return dir
}

func newClient(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Cluster: &client.Cluster{
		Epoch: 1, Shards: 1, Nodes: []topology.Node{{Name: "n1", Addr: me}}, Chains: [][]string{{"n1"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// get reads a key; "": no node of this machine answers.
func get(t *testing.T, r *Reads, key string) (value string) {
	t.Helper()
	hashed, err := wire.HashKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	r.Read([]wire.Key{hashed}, func(_ int, _ uint64, _ uint32, found []byte) { value = string(found) })
	return value
}

// closed ends reads with the test.
func closed(t *testing.T, r *Reads) *Reads {
	t.Cleanup(func() { r.drop(func(*node) bool { return true }) })
	return r
}

// TestReads follows a node that appears, is removed, and appears again without its state.
func TestReads(t *testing.T) {
	pins := newPins(t, "own")
	m := newMachine(t, filepath.Join(pins, "n1"))
	c, r := newClient(t), closed(t, New(pins, slog.New(slog.DiscardHandler)))
	for _, value := range []string{"one", "two"} {
		if got := get(t, r, "k"); got != "" {
			t.Fatalf("a read before the node was found gave %q", got)
		}
		err := m.Do(func() error { // the client's sockets belong to the machine
			if _, err := c.Put(t.Context(), "k", []byte(value)); err != nil {
				return err
			}
			r.look(t.Context(), c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := get(t, r, "k"); got != value {
			t.Fatalf("read %q, want %q", got, value)
		}
		if got := get(t, r, "absent"); got != "" {
			t.Fatalf("an absent key has the value %q", got)
		}
		m.remove(t)
		if got := get(t, r, "k"); got != "" {
			t.Fatalf("read %q from a node that was removed", got)
		}
		m.start(t)
		r.drop(func(n *node) bool { return n.memory.Gone() })
		if len(r.nodes) != 0 {
			t.Fatal("a node that was removed is still used")
		}
		if err := m.Do(func() error { // as a client with a copy of the new cluster's file does
			c.Close()
			c = newClient(t)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForeignNode does not use a node of another cluster, though it has the same name and address.
func TestForeignNode(t *testing.T) {
	ours := newMachine(t, filepath.Join(newPins(t, "ours"), "n1"))
	others := newPins(t, "others")
	newMachine(t, filepath.Join(others, "n1"))
	var log bytes.Buffer
	c, r := newClient(t), closed(t, New(others, slog.New(slog.NewTextHandler(&log, nil))))
	for range 2 {
		if err := ours.Do(func() error { r.look(t.Context(), c); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, a := range r.tried {
			a.next = a.next.Add(-a.pause)
		}
	}
	if len(r.nodes) != 0 {
		t.Fatal("the node of another cluster is used")
	}
	if n := strings.Count(log.String(), errNotSeen.Error()); n != 1 {
		t.Errorf("the reason was logged %d times:\n%s", n, log.String())
	}
}

// TestUnusablePins goes on without a node whose tables cannot be opened, and logs the reason once.
func TestUnusablePins(t *testing.T) {
	pins := newPins(t, "unusable")
	m := newMachine(t, filepath.Join(pins, "n1"))
	if err := os.Remove(filepath.Join(m.pin, "nq_loads")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c, r := newClient(t), closed(t, New(pins, slog.New(slog.NewTextHandler(&log, nil))))
	for range 2 {
		if err := m.Do(func() error { r.look(t.Context(), c); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, a := range r.tried {
			a.next = a.next.Add(-a.pause)
		}
	}
	if got := get(t, r, "k"); got != "" || len(r.nodes) != 0 {
		t.Errorf("%d nodes are used, a read gave %q", len(r.nodes), got)
	}
	if n := strings.Count(log.String(), "nq_loads"); n != 1 {
		t.Errorf("the reason was logged %d times:\n%s", n, log.String())
	}
}

// TestForbiddenPins logs once that pins may not be read.
func TestForbiddenPins(t *testing.T) {
	roottest.Need(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := New(dir, slog.New(slog.NewTextHandler(&log, nil)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()            // never unlocked: the thread ends here, and with it its identity for files
		_, _ = unix.SetfsuidRetUid(65534) // nobody: without the privilege to read any file
		r.look(t.Context(), nil)
		r.look(t.Context(), nil)
	}()
	<-done
	if n := strings.Count(log.String(), "run this process as root, or with CAP_BPF"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
