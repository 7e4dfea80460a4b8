package xdp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/internal/verify/conformance"
)

// served returns the interfaces that have the plane's program, and checks that the tables of ports have the same ones.
func served(p *Plane) (string, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return "", err
	}
	info, err := p.objects.Ingress.Info()
	if err != nil {
		return "", err
	}
	id, _ := info.ID()
	var names []string
	for _, l := range all {
		a := l.Attrs()
		has := a.Xdp != nil && a.Xdp.Attached && ebpf.ProgramID(a.Xdp.ProgId) == id
		if has {
			names = append(names, a.Name)
		}
		var in nqPort
		switch err := p.objects.Ports.Lookup(uint32(a.Index), &in); {
		case errors.Is(err, ebpf.ErrKeyNotExist) && !has:
		case err != nil:
			return "", fmt.Errorf("%s, program: %v: nq_ports: %w", a.Name, has, err)
		case !has || in.MAC != [6]byte(a.HardwareAddr):
			return "", fmt.Errorf("%s, program: %v: nq_ports has %+v", a.Name, has, in)
		}
		var cell nqPortCell
		if err := p.objects.Cells.Lookup(uint32(a.Index)%p.objects.Cells.MaxEntries(), &cell); err != nil {
			return "", err
		}
		if (cell.Ifindex == uint32(a.Index)) != has {
			return "", fmt.Errorf("%s, program: %v: nq_port_cells has %+v", a.Name, has, cell)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " "), nil
}

// machine are the changes of interfaces that tests make.
type machine struct {
	next  int
	other *thread.Thread // in another namespace
}

// add makes a veth pair, up; index 0: any.
func (m *machine) add(name string, index, mtu int) error {
	m.next++
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: fmt.Sprintf("peer%d", m.next)}
	veth.Name, veth.Index, veth.MTU = name, index, mtu
	veth.HardwareAddr = macOf([4]byte{1, 2, 3, byte(m.next)})
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return m.change(name, netlink.LinkSetUp)
}

func (m *machine) change(name string, f func(netlink.Link) error) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f(l)
}

// move moves an interface to another namespace.
func (m *machine) move(name string) error {
	var err error
	if m.other, err = thread.Start(func() error { return unix.Unshare(unix.CLONE_NEWNET) }); err != nil {
		return err
	}
	var there *os.File
	err = m.other.Do(func() (err error) {
		there, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return err
	}
	defer there.Close()
	return m.change(name, func(l netlink.Link) error { return netlink.LinkSetNsFd(l, int(there.Fd())) })
}

// checkMoved returns an error if an interface has a program in the other namespace.
func (m *machine) checkMoved() error {
	if m.other == nil {
		return nil
	}
	other := m.other
	m.other = nil
	defer other.Close()
	return other.Do(func() error {
		return m.change("near", func(l netlink.Link) error {
			if l.Attrs().Xdp.Attached {
				return errors.New("the program is on an interface in another namespace")
			}
			return nil
		})
	})
}

func rename(to string) func(netlink.Link) error {
	return func(l netlink.Link) error {
		return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, to), netlink.LinkSetUp(l))
	}
}

func mtu(n int) func(netlink.Link) error {
	return func(l netlink.Link) error { return netlink.LinkSetMTU(l, n) }
}

func indexOf(name string) int {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return 0
	}
	return l.Attrs().Index
}

// linkChange is a change of interfaces, and what a node makes of it. Before it there are near and near2, both up.
type linkChange struct {
	ports   []string // as named
	change  func(m *machine) error
	served  string // afterwards
	trouble string // part of it, afterwards
	logged  string
	repair  func(m *machine) error // after which near is a port and there is no trouble
}

var linkChanges = map[string]linkChange{
	"made anew": {ports: []string{"near"},
		change: func(m *machine) error { return m.change("near", netlink.LinkDel) }, trouble: "port near: there is no such",
		logged: "port=near", repair: func(m *machine) error { return m.add("near", 0, 1500) }},
	"made anew under the same index": {ports: []string{"near"}, change: func(m *machine) error {
		index := indexOf("near")
		return errors.Join(m.change("near", netlink.LinkDel), m.add("near", index, 1500))
	}, served: "near"},
	"renamed": {ports: []string{"near"}, change: func(m *machine) error { return m.change("near", rename("old")) },
		trouble: "port near: there is no such", repair: func(m *machine) error { return m.change("old", rename("near")) }},
	"renamed, and the name taken": {ports: []string{"near"}, change: func(m *machine) error {
		return errors.Join(m.change("near", rename("old")), m.add("near", 0, 1500))
	}, served: "near"},
	"names swapped": {ports: []string{"near", "near2"}, change: func(m *machine) error {
		return errors.Join(m.change("near", rename("x")), m.change("near2", rename("near")), m.change("x", rename("near2")))
	}, served: "near near2"},
	"another address": {ports: []string{"near"}, change: func(m *machine) error {
		return m.change("near", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, macOf([4]byte{9, 9, 9, 9})) })
	}, served: "near"},
	"down": {ports: []string{"near"}, change: func(m *machine) error { return m.change("near", netlink.LinkSetDown) },
		served: "near", trouble: "port near: the interface is down",
		repair: func(m *machine) error { return m.change("near", netlink.LinkSetUp) }},
	"small MTU": {ports: []string{"near"}, change: func(m *machine) error { return m.change("near", mtu(smallMTUBytes)) },
		trouble: "its MTU of 100 is too small", repair: func(m *machine) error { return m.change("near", mtu(1500)) }},
	"moved to another namespace": {ports: []string{"near"}, change: func(m *machine) error { return m.move("near") },
		trouble: "port near: there is no such", repair: func(m *machine) error { return m.add("near", 0, 1500) }},
	"moved to another namespace, and its index is another's": {ports: []string{"near"}, change: func(m *machine) error {
		index := indexOf("near")
		return errors.Join(m.move("near"), m.add("near", index, 1500))
	}, served: "near"},
	"one of two is gone": {ports: []string{"near", "near2"},
		change: func(m *machine) error { return m.change("near", netlink.LinkDel) }, served: "near2",
		trouble: "port near: there is no such", repair: func(m *machine) error { return m.add("near", 0, 1500) }},
	"one more comes up": {change: func(m *machine) error { return m.add("new", 0, 1500) }, served: "near near2 new", logged: "port=new"},
	"an overlay comes up": {change: func(m *machine) error { return m.add("flannel.1", 0, smallMTUBytes) },
		served: "near near2", logged: "interface=flannel.1"},
	"all are gone": {change: func(m *machine) error {
		return errors.Join(m.change("near", netlink.LinkDel), m.change("near2", netlink.LinkDel))
	}, trouble: "no Ethernet interface is up", repair: func(m *machine) error { return m.add("near", 0, 1500) }},
}

// smallMTUBytes is less than the longest message of testOptions.
const smallMTUBytes = 100

// reset makes the interfaces as they are before a change. The node's address stays.
func (m *machine) reset() error {
	all, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.Attrs().Name != loopback {
			_ = netlink.LinkDel(l) // or its pair is gone already
		}
	}
	return errors.Join(m.add("near", 0, 1500), m.add("near2", 0, 1500))
}

func (m *machine) addressOnLoopback() error {
	return m.change(loopback, func(l netlink.Link) error {
		return addAddress(l, netip.PrefixFrom(conformance.Me.Addr(), conformance.Me.Addr().BitLen()))
	})
}

// checkServed returns an error unless these interfaces, and no others, have the program, and that trouble is reported.
func checkServed(p *Plane, want, trouble string) error {
	if got, err := served(p); err != nil || got != want {
		return fmt.Errorf("served %q, %w; want %q", got, err, want)
	}
	if got := p.Info().PortTrouble; (got == "") != (trouble == "") || !strings.Contains(got, trouble) {
		return fmt.Errorf("trouble %q, want %q", got, trouble)
	}
	var attached []string
	for _, port := range p.Ports() {
		if port.Attached {
			attached = append(attached, port.Name)
		}
	}
	if slices.Sort(attached); strings.Join(attached, " ") != want {
		return fmt.Errorf("the states of ports name %q as attached, want %q", attached, want)
	}
	return nil
}

// TestPortsFollowLinks changes interfaces while a node runs, and looks which of them have the program then.
func TestPortsFollowLinks(t *testing.T) {
	o := testOptions(t)
	o.Mode = Generic
	m := new(machine)
	inNamespace(t, func() error {
		if err := m.addressOnLoopback(); err != nil {
			return err
		}
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer p.Close()
		for name, c := range linkChanges {
			var text strings.Builder
			log := slog.New(slog.NewTextHandler(&text, nil))
			if err := m.reset(); err != nil {
				return err
			}
			p.names = c.ports
			p.look(log)
			if !strings.Contains(text.String(), "port=near ") {
				return fmt.Errorf("%s: near is no port before: %s", name, &text)
			}
			text.Reset()
			if err := c.change(m); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			p.look(log)
			if err := errors.Join(checkServed(p, c.served, c.trouble), m.checkMoved()); err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, &text)
			}
			if !strings.Contains(text.String(), c.logged) {
				return fmt.Errorf("%s: want %q in the log: %s", name, c.logged, &text)
			}
			if c.repair == nil {
				continue
			}
			if err := c.repair(m); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			p.look(log)
			if got, err := served(p); err != nil || !strings.HasPrefix(got, "near") || p.Info().PortTrouble != "" {
				return fmt.Errorf("%s: after the repair: served %q, %w, trouble %q: %s", name, got, err, p.Info().PortTrouble, &text)
			}
		}
		return nil
	})
}

// TestLinksChangeWithoutAgent changes interfaces while the agent of a node is away: the next one puts the program on
// those that are ports now, and starts though a port is missing.
func TestLinksChangeWithoutAgent(t *testing.T) {
	for _, name := range []string{"made anew", "made anew under the same index", "renamed, and the name taken", "names swapped",
		"one of two is gone", "moved to another namespace, and its index is another's"} {
		c := linkChanges[name]
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			o.Ports, o.Mode = c.ports, Auto
			m := new(machine)
			inNamespace(t, func() error {
				if err := errors.Join(m.addressOnLoopback(), m.reset()); err != nil {
					return err
				}
				first, err := Open(o)
				if err != nil {
					return err
				}
				if err := errors.Join(first.Close(), c.change(m)); err != nil {
					return err
				}
				second, err := Open(o)
				if err != nil {
					return err
				}
				defer second.Close()
				return errors.Join(checkServed(second, c.served, c.trouble), m.checkMoved())
			})
		})
	}
}

// TestLaterPortsAreNative: where ports are native, one that comes later and cannot be native makes all generic if the
// user named it, and is left out otherwise.
func TestLaterPortsAreNative(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named: %v", named), func(t *testing.T) {
			o := testOptions(t)
			o.Ports, o.Mode, o.Pin = nil, Auto, ""
			if named {
				o.Ports = []string{"near"}
			}
			m := new(machine)
			inNamespace(t, func() error {
				if err := errors.Join(m.addressOnLoopback(), m.reset(), m.change("near2", netlink.LinkDel)); err != nil {
					return err
				}
				p, err := Open(o)
				if err != nil {
					return err
				}
				defer p.Close()
				if named {
					p.names = []string{"near", "new"}
				}
				bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()} // down, so it is no port
				bridge.Name = "bridge"
				if err := errors.Join(netlink.LinkAdd(bridge), m.add("new", 0, 1500)); err != nil {
					return err
				}
				peer := fmt.Sprintf("peer%d", m.next)
				if err := m.change(peer, func(l netlink.Link) error { return netlink.LinkSetMaster(l, bridge) }); err != nil {
					return err
				}
				var text strings.Builder
				p.look(slog.New(slog.NewTextHandler(&text, nil)))
				mode, want := Native, "near"
				if named {
					mode, want = Generic, "near new"
				}
				if got := p.Info().Mode; got != string(mode) {
					return fmt.Errorf("mode %s, want %s: %s", got, mode, &text)
				}
				if err := checkServed(p, want, ""); err != nil || named {
					return err
				}
				return laterFits(p, peer)
			})
		})
	}
}

// laterFits lets the other end of new leave its bridge: new can be native, and is a port when it is tried again.
func laterFits(p *Plane, peer string) error {
	if err := new(machine).change(peer, netlink.LinkSetNoMaster); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	p.look(log)
	if err := checkServed(p, "near", ""); err != nil {
		return fmt.Errorf("it is tried again at once: %w", err)
	}
	if after, ok := p.nextLook(time.Now()); !ok || after > lookAgain {
		return fmt.Errorf("it is tried again after %v, %v", after, ok)
	}
	for index, r := range p.excluded {
		r.again = time.Now()
		p.excluded[index] = r
	}
	p.look(log)
	if _, ok := p.nextLook(time.Now()); ok {
		return errors.New("it is tried still")
	}
	return checkServed(p, "near new", "")
}

// TestLinksAreFollowed: without being asked, a node attaches its program to an interface that was made anew.
func TestLinksAreFollowed(t *testing.T) {
	o := testOptions(t)
	o.Mode, o.Pin = Generic, ""
	m := new(machine)
	inNamespace(t, func() error {
		if err := errors.Join(m.addressOnLoopback(), m.reset()); err != nil {
			return err
		}
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer p.Close()
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer here.Close()
		ctx, stop := context.WithCancel(t.Context())
		followed := make(chan error, 1)
		go func() {
			followed <- thread.In(fmt.Sprintf("/proc/self/fd/%d", here.Fd()), func() error {
				p.FollowLinks(ctx, slog.New(slog.DiscardHandler))
				return nil
			})
		}()
		defer func() { stop(); <-followed }()
		await := func(what string, ok func() bool) error {
			tick, end := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
			defer tick.Stop()
			for !ok() {
				select {
				case <-tick.C:
				case <-end:
					return fmt.Errorf("%s: trouble %q", what, p.Info().PortTrouble)
				}
			}
			return nil
		}
		for range 3 {
			if err := m.change("near", netlink.LinkDel); err != nil {
				return err
			}
			if err := await("the loss is not noticed", func() bool { return p.Info().PortTrouble != "" }); err != nil {
				return err
			}
			if err := m.add("near", 0, 1500); err != nil {
				return err
			}
			if err := await("the new interface is not served", func() bool { return p.Info().PortTrouble == "" }); err != nil {
				return err
			}
			if err := checkServed(p, "near", ""); err != nil {
				return err
			}
		}
		return nil
	})
}
