package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// beyond is a member of the chain that a route by near2 leads to. near2 is no port.
var beyond = netip.MustParseAddrPort("192.0.2.9:7000")

// Results of programs at tc ingress.
const (
	tcNext     = 0xffffffff
	tcDrop     = 2
	tcRedirect = 7
)

// onlyWithDetours skips a test where the kernel has no tc ingress for the program.
func onlyWithDetours(t *testing.T) {
	t.Helper()
	roottest.Need(t)
	if !hasTCX() {
		t.Skip("detours need Linux 6.6")
	}
}

// routeBeyond makes near2 the way to beyond.
func routeBeyond() error {
	l, err := netlink.LinkByName("near2")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(l), addAddress(l, netip.MustParsePrefix("192.0.2.1/24")))
}

// withDetours opens a plane beside the route to beyond, and closes it after the check.
func withDetours(t *testing.T, o Options, check func(p *Plane) error) {
	t.Helper()
	onlyWithDetours(t)
	inNamespace(t, func() error {
		if err := routeBeyond(); err != nil {
			return err
		}
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer p.Close()
		return check(p)
	})
}

// putBeyond runs the plane's program on a write that came in by an interface, whose UPDATE leads to beyond.
func putBeyond(p *Plane, ifindex int) (action uint32, out []byte, err error) {
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{conformance.Me, beyond}}
	if err := errors.Join(p.ConfigureAll(map[uint16]chain.ShardConfig{0: config}), p.Grant(0, dataplane.Forever)); err != nil {
		return 0, nil, err
	}
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: wire.Key{Hi: 1}, Session: 1, Seq: 1, Value: []byte("v")}
	return runOnce(p.objects.Ingress, frameFromHost(&put, conformance.Me), ifindex)
}

// frameFromHost is a frame with a message, from a host behind near.
func frameFromHost(m *wire.Message, to netip.AddrPort) []byte {
	in := frame.Append(nil, &frame.Packet{From: at(9), To: to, Message: m.Append(nil)})
	near, host := macOf(conformance.Me.Addr().As4()), macOf(at(9).Addr().As4())
	copy(in, slices.Concat(near, host))
	return in
}

// atIngress runs the plane's program at tc ingress on a frame that came in by the first port.
func atIngress(p *Plane, frame []byte) (action uint32, err error) {
	var context [44]byte // of struct __sk_buff, up to ifindex
	binary.NativeEndian.PutUint32(context[40:], uint32(p.ports[0].index))
	return p.objects.Grow.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, maxFrame), Context: context[:]})
}

// TestDetoursOutliveReplacement: a frame that a program at XDP sent on a detour is sent on by a program that was loaded
// later. Programs are replaced one after the other.
func TestDetoursOutliveReplacement(t *testing.T) {
	onlyWithDetours(t)
	for name, replace := range map[string]func(*Plane, Options) (*Plane, error){
		"other agent": reopen,
		"tags":        func(p *Plane, _ Options) (*Plane, error) { return p, p.SetTags(wire.TagsAccepted) },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			inNamespace(t, func() error {
				if err := routeBeyond(); err != nil {
					return err
				}
				p, err := Open(o)
				if err != nil {
					return err
				}
				action, marked, err := putBeyond(p, p.ports[0].index)
				if err != nil || action != xdpPass {
					return errors.Join(fmt.Errorf("the UPDATE takes no detour: action %d, %w", action, err), p.Close())
				}
				if p, err = replace(p, o); err != nil {
					return err
				}
				defer p.Close()
				if action, err := atIngress(p, marked); err != nil || action != tcRedirect {
					return fmt.Errorf("the next program returned %d, want %d: %w", int32(action), tcRedirect, err)
				}
				return nil
			})
		})
	}
}

// TestFramesOfPodsTakeNoDetour: a pod's socket may leave the checksum of a frame to a device, which would write it over
// that of the message sent in its place. The agent sends that message instead.
func TestFramesOfPodsTakeNoDetour(t *testing.T) {
	o := testOptions(t)
	o.Pin, o.Pods = "", netip.MustParseAddr("169.254.77.1")
	withDetours(t, o, func(p *Plane) error {
		if _, _, err := p.AttachPod("near2", true); err != nil {
			return err
		}
		action, _, err := putBeyond(p, p.pods["near2"].index)
		if err != nil || action != xdpDrop {
			return fmt.Errorf("action %d, want %d: %w", action, xdpDrop, err)
		}
		return nil
	})
}

// TestLostDetoursAreCounted: a message that cannot be sent at tc ingress is counted as one that cannot be sent at XDP.
func TestLostDetoursAreCounted(t *testing.T) {
	o := testOptions(t)
	o.Pin = ""
	withDetours(t, o, func(p *Plane) error {
		_, marked, err := putBeyond(p, p.ports[0].index)
		if err != nil {
			return err
		}
		for name, damage := range map[string]func(f []byte) []byte{
			"no acknowledgements": func(f []byte) []byte { f[11] = 1; return f[:60] },
			"no such chain":       func(f []byte) []byte { f[11] = 1; return slices.Concat(f[:100], slices.Repeat([]byte{0xff}, 100)) },
		} {
			before, err := p.Counters()
			if err != nil {
				return err
			}
			if action, err := atIngress(p, damage(slices.Clone(marked))); err != nil || action != tcDrop {
				return fmt.Errorf("%s: action %d, want %d: %w", name, int32(action), tcDrop, err)
			}
			after, err := p.Counters()
			if err != nil {
				return err
			}
			lost := chain.Counter{Outcome: wire.OutcomeUnroutable}
			if n := after[lost] - before[lost]; n != 1 {
				return fmt.Errorf("%s: counted %d times", name, n)
			}
		}
		return nil
	})
}

// TestTagsKeepTheRest: another phase of tags changes nothing else: pods' ports get the new program, which answers at the
// address for pods and routes messages of other nodes.
func TestTagsKeepTheRest(t *testing.T) {
	o := testOptions(t)
	o.Pin, o.Pods, o.Transit = "", netip.MustParseAddr("169.254.77.1"), []netip.Prefix{conformance.Net}
	inNamespace(t, func() error {
		p, err := openLone(o)
		if err != nil {
			return err
		}
		defer p.Close()
		if _, _, err := p.AttachPod("near2", true); err != nil {
			return err
		}
		before, err := programAt("near2")
		if err != nil {
			return err
		}
		for _, phase := range []wire.Tags{wire.TagsOff, wire.TagsAccepted} {
			if err := p.SetTags(phase); err != nil {
				return err
			}
			read := wire.Message{Op: wire.OpRead, Key: wire.Key{Hi: 1}}
			for name, to := range map[string]netip.AddrPort{
				"the address for pods": netip.AddrPortFrom(o.Pods, conformance.Me.Port()),
				"another node":         netip.AddrPortFrom(at(5).Addr(), conformance.Me.Port()),
			} {
				action, _, err := runOnce(p.objects.Ingress, frameFromHost(&read, to), p.ports[0].index)
				if err != nil || action != xdpTX {
					return fmt.Errorf("tags %v: a read of %s: action %d, want %d: %w", phase, name, action, xdpTX, err)
				}
			}
			now, err := programAt("near2")
			if err != nil || now == before {
				return fmt.Errorf("tags %v: the pod's port has the program of before: %w", phase, err)
			}
			if at, err := programAt("near"); err != nil || at != now {
				return fmt.Errorf("tags %v: the pod's port has program %d, the node's has %d: %w", phase, now, at, err)
			}
			if err := hasGrow(p); err != nil {
				return err
			}
			before = now
		}
		return nil
	})
}

func programAt(name string) (uint32, error) {
	l, err := netlink.LinkByName(name)
	if err != nil || l.Attrs().Xdp == nil {
		return 0, fmt.Errorf("interface %s: %w", name, err)
	}
	return l.Attrs().Xdp.ProgId, nil
}

// hasGrow returns an error unless the loopback device has the plane's program.
func hasGrow(p *Plane) error {
	if p.lo.link == nil { // before Linux 6.6
		return nil
	}
	info, err := p.objects.Grow.Info()
	if err != nil {
		return err
	}
	id, _ := info.ID()
	if at, err := p.lo.where(); err != nil || at.program != uint32(id) || at.index != loopbackIndex {
		return fmt.Errorf("the loopback device has %+v, not program %d: %w", at, id, err)
	}
	return nil
}
