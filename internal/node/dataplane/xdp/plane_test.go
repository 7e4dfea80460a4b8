package xdp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// inNamespace runs f on a thread in a new network namespace with the veth pair of [Offline] and a second one, "near2".
func inNamespace(t testing.TB, f func() error) {
	t.Helper()
	roottest.Need(t)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here, and the namespace with it
		result <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			me := &Offline{self: conformance.Me, network: conformance.Net}
			if err := makeNear(macOf(me.self.Addr().As4()), me.wire); err != nil {
				return err
			}
			second := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far2"}
			second.Name = "near2"
			if err := netlink.LinkAdd(second); err != nil {
				return err
			}
			return f()
		}()
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func testOptions(t testing.TB) Options {
	pin := fmt.Sprintf("%s/netcraq-test-%d", bpfFS, os.Getpid())
	t.Cleanup(func() {
		if err := Remove(pin); err != nil {
			t.Error(err)
		}
	})
	return Options{
		Node: conformance.Me, Ports: []string{"near"}, Pin: pin,
		Chain: chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 8, MaxSessions: 8},
	}
}

// send hands a message to the plane's program and reports whether it was answered.
func send(p *Plane, m *wire.Message) (bool, error) {
	in := frame.Append(nil, &frame.Packet{From: at(9), To: conformance.Me, Message: m.Append(nil)})
	action, _, err := runOnce(p.objects.Ingress, in, p.ports[0].index)
	return action == xdpTX, err
}

func configureLone(p *Plane) error {
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{conformance.Me}}
	return errors.Join(p.ConfigureAll(map[uint16]chain.ShardConfig{0: config}), p.Grant(0, dataplane.Forever))
}

// openLone opens a plane that serves shard 0 alone.
func openLone(o Options) (*Plane, error) {
	p, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := configureLone(p); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// TestTakeover closes a plane and opens it again: objects, configuration, lease and attachment are still there.
func TestTakeover(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		first, err := Open(o)
		if err != nil {
			return err
		}
		if err := configureLone(first); err != nil {
			return err
		}
		put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: wire.Key{Hi: 1}, Session: 1, Seq: 1, Value: []byte("v")}
		if answered, err := send(first, &put); err != nil || !answered {
			return fmt.Errorf("put: answered %v, %w", answered, err)
		}
		if err := first.Close(); err != nil {
			return err
		}
		second, err := Open(o)
		if err != nil {
			return err
		}
		defer second.Close()
		object, found, err := second.Object(wire.Key{Hi: 1})
		if err != nil || !found || string(object.Value) != "v" {
			return fmt.Errorf("object: %+v, %v, %w", object, found, err)
		}
		read := wire.Message{Op: wire.OpRead, Key: wire.Key{Hi: 1}}
		if answered, err := send(second, &read); err != nil || !answered {
			return fmt.Errorf("read: answered %v, %w", answered, err)
		}
		if !second.ports[0].xdp.taken || !second.ports[0].grow.taken {
			return errors.New("the port was attached anew")
		}
		return nil
	})
}

// TestStalePins refuses a takeover by another node, and leaves the one that is there alone.
func TestStalePins(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		first, err := Open(o)
		if err != nil {
			return err
		}
		if err := first.Close(); err != nil {
			return err
		}
		for name, change := range map[string]func(*Options){
			"port":    func(o *Options) { o.Node = netip.AddrPortFrom(o.Node.Addr(), o.Node.Port()+1) },
			"objects": func(o *Options) { o.Chain.MaxObjects++ },
			"cell":    func(o *Options) { o.Chain.CellBytes-- },
			"shards":  func(o *Options) { o.Chain.Shards = 2 },
			"relay":   func(o *Options) { o.Chain.Relay = true },
		} {
			other := o
			change(&other)
			if p, err := Open(other); !errors.Is(err, ErrStalePins) {
				if err == nil {
					p.Close()
				}
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		again, err := Open(o)
		if err != nil {
			return err
		}
		return again.Close()
	})
}

// TestFailedTakeover fails to attach a second port: the predecessor's port stays attached.
func TestFailedTakeover(t *testing.T) {
	o := testOptions(t)
	o.Mode = Native
	inNamespace(t, func() error {
		first, err := Open(o)
		if err != nil {
			return err
		}
		index, err := netlink.LinkByName("near2")
		if err != nil {
			return err
		}
		busy, err := link.AttachXDP(link.XDPOptions{Program: first.objects.Ingress, Interface: index.Attrs().Index})
		if err != nil {
			return err
		}
		defer busy.Close()
		if err := first.Close(); err != nil {
			return err
		}
		two := o
		two.Ports = []string{"near", "near2"}
		if p, err := Open(two); err == nil {
			p.Close()
			return errors.New("a port with another program was attached")
		}
		near, err := netlink.LinkByName("near")
		if err != nil {
			return err
		}
		if near.Attrs().Xdp == nil || !near.Attrs().Xdp.Attached {
			return errors.New("the predecessor's port is detached")
		}
		return nil
	})
}

// TestNothingLeftBehind opens planes that cannot be: no pins remain.
func TestNothingLeftBehind(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		for name, change := range map[string]func(*Options){
			"missing port":    func(o *Options) { o.Ports = []string{"nowhere"} },
			"foreign address": func(o *Options) { o.Node = at(77) },
			"mode":            func(o *Options) { o.Mode = "fast" },
			"MTU":             func(o *Options) { o.Chain.CellBytes = wire.MaxValueBytes; o.Ports = []string{"far2"} },
		} {
			bad := o
			change(&bad)
			if name == "MTU" {
				far, err := netlink.LinkByName("far2")
				if err != nil {
					return err
				}
				if err := netlink.LinkSetMTU(far, 1000); err != nil {
					return err
				}
			}
			if p, err := Open(bad); err == nil {
				p.Close()
				return fmt.Errorf("%s: opened", name)
			}
			if _, err := os.Stat(o.Pin); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s: %s is left behind: %w", name, o.Pin, err)
			}
		}
		return nil
	})
}

// attached reports how a program is attached to a device of this namespace.
func attached(name string) (bool, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return false, err
	}
	return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached, nil
}

// reopen closes a plane and opens it with other options.
func reopen(p *Plane, o Options) (*Plane, error) {
	if err := p.Close(); err != nil {
		return nil, err
	}
	return Open(o)
}

// TestDroppedPort starts again with one port less: the old program no longer answers there.
func TestDroppedPort(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		two := o
		two.Ports = []string{"near", "near2"}
		p, err := Open(two)
		if err != nil {
			return err
		}
		if p, err = reopen(p, o); err != nil {
			return err
		}
		defer p.Close()
		if near2, err := attached("near2"); err != nil || near2 {
			return fmt.Errorf("near2: attached %v, %w", near2, err)
		}
		if near, err := attached("near"); err != nil || !near {
			return fmt.Errorf("near: attached %v, %w", near, err)
		}
		return nil
	})
}

// TestModeIsObeyed attaches anew if the predecessor's mode is not the one asked for, and says so if none is asked for.
func TestModeIsObeyed(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		o.Mode = Generic
		p, err := Open(o)
		if err != nil {
			return err
		}
		o.Mode = Auto
		if p, err = reopen(p, o); err != nil {
			return err
		}
		if info := p.Info(); info.Mode != string(Generic) || info.Why == "" {
			return fmt.Errorf("auto after generic: %q because %q", info.Mode, info.Why)
		}
		o.Mode = Native
		if p, err = reopen(p, o); err != nil {
			return err
		}
		defer p.Close()
		if info := p.Info(); info.Mode != string(Native) {
			return fmt.Errorf("native after generic: %q", info.Mode)
		}
		return nil
	})
}

// TestHalfStart removes the remains of a start that was killed before the node could answer.
func TestHalfStart(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		if err := makePinDirectory(o.Pin); err != nil {
			return err
		}
		half, err := load(chain.Options{Shards: 4, CellBytes: 80, MaxObjects: 3, MaxSessions: 3}, constants{}, o.Pin, 0)
		if err != nil {
			return err
		}
		half.close()
		p, err := Open(o)
		if err != nil {
			return err
		}
		return p.Close()
	})
}

// TestForeignDirectory leaves a directory alone that was named by mistake.
func TestForeignDirectory(t *testing.T) {
	o := testOptions(t)
	o.Pin = t.TempDir()
	file := filepath.Join(o.Pin, "letter")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inNamespace(t, func() error {
		if p, err := Open(o); err == nil {
			return errors.Join(errors.New("a node is pinned among letters"), p.Close())
		}
		_, err := os.Stat(file)
		return err
	})
}

// TestPortsAreNotRouters leaves forwarding of the machine's interfaces as it was.
func TestPortsAreNotRouters(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		const path = "/proc/sys/net/ipv4/conf/near/forwarding"
		if err := os.WriteFile(path, []byte("0"), 0); err != nil {
			return err
		}
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer p.Close()
		have, err := os.ReadFile(path)
		if err != nil || have[0] != '0' {
			return fmt.Errorf("forwarding is %q, %w", have, err)
		}
		return nil
	})
}
