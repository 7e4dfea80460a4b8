package cni

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/node/pods"
)

// TestDeleteOfAnother: a late DEL whose path leads to another pod by now takes nothing from that pod, whether a record
// of the earlier container is left or not. Nor does the DEL of the first of two containers in one namespace.
func TestDeleteOfAnother(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "now")
		previous := p.join(1)
		m.must("ADD", p, m.chained(previous))
		r, err := m.dir.Get("now", "eth0")
		if err != nil {
			t.Fatal(err)
		}
		unknown := &pod{t: t, name: "unknown", netns: p.netns}
		m.must("DEL", unknown, m.chained(previous))
		yesterday := &pod{t: t, name: "yesterday", netns: p.netns}
		r.Container, r.Pod.Namespace = yesterday.name, r.Pod.Namespace+1<<40
		if err := m.dir.Put(r); err != nil {
			t.Fatal(err)
		}
		m.must("DEL", yesterday, m.chained(previous))
		m.must("CHECK", p, m.chained(previous))

		second := &pod{t: t, name: "second", netns: p.netns}
		m.must("ADD", second, m.chained(previous))
		m.must("DEL", p, m.chained(previous))
		m.must("CHECK", second, m.chained(previous))
		p.read()
		m.must("DEL", second, m.chained(previous))
		m.nothingLeft(p)
	})
}

// TestSecondInterface: a pod with two interfaces keeps its way to the chain when either of them is removed.
func TestSecondInterface(t *testing.T) {
	for _, removed := range []string{"eth0", "net1"} {
		t.Run(removed, func(t *testing.T) {
			onMachine(t, func(t *testing.T) {
				m := newMachine(t)
				m.start()
				defer func() { m.stop() }()
				p := newPod(t, "one")
				previous := p.join(1)
				m.must("ADD", p, m.chained(previous))
				second := &pod{t: t, name: "one", thread: p.thread, netns: p.netns, ifname: "net1"}
				second.connect("vethtwo")
				m.must("ADD", second, m.chained(previous))
				m.must("CHECK", p, m.chained(previous))
				m.must("CHECK", second, m.chained(previous))
				gone, stays := p, second
				if removed == "net1" {
					gone, stays = second, p
				}
				m.must("DEL", gone, m.chained(previous))
				m.must("CHECK", stays, m.chained(previous))
				p.read()
				m.must("DEL", stays, m.chained(previous))
				m.nothingLeft(p)
			})
		})
	}
}

// TestIPv6Only: a pod without an IPv4 address starts. ADD says that it is not served, and CHECK fails until it has one.
func TestIPv6Only(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "six")
		p.connect("vethsix")
		if err := p.thread.Do(func() error { return addAddress("eth0", "fd00::5/64") }); err != nil {
			t.Fatal(err)
		}
		chained := m.chained(`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"fd00::5/64"}]}`)
		if _, stderr := m.must("ADD", p, chained); !strings.Contains(stderr, "no IPv4 address") {
			t.Errorf("ADD does not say that the pod is not served: %q", stderr)
		}
		m.refused("CHECK", p, chained, 3, "no IPv4 address")
		if err := p.thread.Do(func() error { return addAddress("eth0", "10.88.1.2/24") }); err != nil {
			t.Fatal(err)
		}
		m.must("CHECK", p, chained)
		p.read()
		m.must("DEL", p, chained)
		m.nothingLeft(p)
	})
}

// TestPeerElsewhere: the other end of a pod's pair is in a third namespace, with the index that a veth of this machine
// has, whose peer has the index of the pod's end. Nothing is attached to that veth.
func TestPeerElsewhere(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p, third, other := newPod(t, "pod"), newPod(t, "third"), newPod(t, "other")
		join := func(from func(func() error) error, to *pod) {
			t.Helper()
			pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0"}
			pair.Name, pair.Index = "vethsame", 55
			ns, err := os.Open(to.netns)
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Close()
			pair.PeerNamespace = netlink.NsFd(int(ns.Fd()))
			if err := from(func() error { return netlink.LinkAdd(pair) }); err != nil {
				t.Fatal(err)
			}
		}
		join(third.thread.Do, p)
		join(func(add func() error) error { return add() }, other)
		up := func(name string) error {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		}
		err := errors.Join(up("vethsame"), third.thread.Do(func() error { return up("vethsame") }),
			p.thread.Do(func() error { return up("eth0") }), other.thread.Do(func() error { return up("eth0") }))
		if err != nil {
			t.Fatal(err)
		}
		if p.index() != other.index() {
			t.Fatalf("the ends have the indexes %d and %d, which the test needs equal", p.index(), other.index())
		}
		chained := m.chained(`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}]}`)
		m.refused("ADD", p, chained, 7, "another network namespace")
		m.nothingLeft(&pod{t: t, name: "same", thread: p.thread})
		m.must("ADD", other, chained)
		if a := m.answer(other); a.Mode != string(xdp.Native) {
			t.Errorf("the pod whose pair it is: %+v", a)
		}
		m.must("DEL", other, chained)
	})
}

// index returns that of a pod's end.
func (p *pod) index() (index int) {
	p.t.Helper()
	err := p.thread.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err == nil {
			index = l.Attrs().Index
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return index
}

// TestLongContainer: an identifier may be longer than a file name.
func TestLongContainer(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "long")
		previous := p.join(1)
		p.name = strings.Repeat("a", 250)
		later := &pod{t: t, name: p.name + "b", netns: p.netns}
		m.must("DEL", p, m.chained(previous)) // of nothing
		m.must("ADD", p, m.chained(previous))
		p.read()
		m.must("CHECK", p, m.chained(previous))
		m.refused("CHECK", later, m.chained(previous), 3, "no record")
		if records, err := m.dir.List(); err != nil || len(records) != 1 || records[0].Container != p.name {
			t.Errorf("records: %+v, %v", records, err)
		}
		m.must("DEL", p, m.chained(previous))
		p.name = "long"
		m.nothingLeft(p)
	})
}

// TestNoNamespace: what is no network namespace of a pod is refused at once, and DEL goes on without it.
func TestNoNamespace(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		fifo, file := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "file")
		if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		p := newPod(t, "pod")
		previous := p.join(1)
		for _, path := range []string{fifo, file, "/proc/self/ns/mnt", "/proc/self/ns/net"} {
			wrong := &pod{t: t, name: "pod", netns: path}
			m.refused("ADD", wrong, m.chained(previous), 8, "network namespace")
			m.refused("CHECK", wrong, m.chained(previous), 8, "network namespace")
			m.must("DEL", wrong, m.chained(previous))
			m.must("ADD", p, m.chained(previous))
			m.must("DEL", wrong, m.chained(previous))
			if _, err := m.dir.Get("pod", "eth0"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after DEL with %s: %v", path, err)
			}
		}
		m.must("ADD", p, m.chained(previous))
		m.must("DEL", p, m.chained(previous))
		m.nothingLeft(p)
	})
}

// TestOldRecord: the plugin takes records of its earlier versions, which do not identify the pod's end.
func TestOldRecord(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "old")
		previous := p.join(1)
		m.must("ADD", p, m.chained(previous))
		r, err := m.dir.Get("old", "eth0")
		if err != nil {
			t.Fatal(err)
		}
		r.Pod = pods.End{}
		if err := m.dir.Put(r); err != nil {
			t.Fatal(err)
		}
		m.must("CHECK", p, m.chained(previous))
		m.must("DEL", p, m.chained(previous))
		if records, err := m.dir.List(); err != nil || len(records) > 0 {
			t.Errorf("records: %+v, %v", records, err)
		}
		if pins, err := filepath.Glob(filepath.Join(m.pins, "*", "pod-*")); err != nil || len(pins) > 0 {
			t.Errorf("pins: %v, %v", pins, err)
		}
	})
}
