package xdp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// Link addresses of the gateways of [hopNetwork], the last byte of a gateway's address.
const (
	usualGateway = 11
	ruleGateway  = 12
	nextGateway  = 13
	ruleTable    = 100 // of routes by ruleGateway
)

// inTransit is a packet in transit through the node.
type inTransit struct {
	from, to netip.AddrPort
	op       wire.Op
	tos      byte
	by       string // the input device
}

// frame makes the packet.
func (p inTransit) frame(value int) ([]byte, error) {
	l, err := netlink.LinkByName(p.by)
	if err != nil {
		return nil, err
	}
	m := wire.Message{Op: p.op, Epoch: 1, Value: make([]byte, value)}
	out := frame.Append(nil, &frame.Packet{From: p.from, To: p.to, Message: m.Append(nil)})
	copy(out, l.Attrs().HardwareAddr)
	ip := out[14:34]
	ip[1] = p.tos
	ip[10], ip[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return out, nil
}

// gateway passes the packet through the node and returns the last byte of the gateway that it goes to.
func (p inTransit) gateway(plane *Plane) (byte, error) {
	in, err := p.frame(0)
	if err != nil {
		return 0, err
	}
	action, out, err := runOnce(plane.objects.Ingress, in, indexOf(p.by))
	if err != nil || action != xdpTX && action != xdpRedirect {
		return 0, fmt.Errorf("a packet in transit: action %d, %w", action, err)
	}
	return out[5], nil
}

// hopNetwork makes gateways behind near and a port near3, and routes of all other addresses by the usual one.
func hopNetwork() error {
	near, err := netlink.LinkByName("near")
	if err != nil {
		return err
	}
	near2, err := netlink.LinkByName("near2")
	if err != nil {
		return err
	}
	err = errors.Join(netlink.LinkSetUp(near2), (&machine{next: 100}).add("near3", near.Attrs().Index+rowDistance, 1500),
		enableForwarding("near"), enableForwarding("near2"), enableForwarding("near3"))
	for _, gateway := range []byte{usualGateway, ruleGateway, nextGateway} {
		err = errors.Join(err, setGateway(near, gateway, gateway))
	}
	return errors.Join(err, routeBy(near, usualGateway, 0), routeBy(near, ruleGateway, ruleTable))
}

// setGateway gives a gateway a link address.
func setGateway(by netlink.Link, gateway, last byte) error {
	a := at(gateway).Addr().As4()
	a[3] = gateway
	mac := macOf(a)
	mac[5] = last
	return netlink.NeighSet(&netlink.Neigh{
		LinkIndex: by.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a[:], HardwareAddr: mac,
	})
}

// routeBy routes all other addresses by a gateway; table 0: the main one.
func routeBy(by netlink.Link, gateway byte, table int) error {
	return netlink.RouteReplace(&netlink.Route{
		LinkIndex: by.Attrs().Index, Gw: at(gateway).Addr().AsSlice(), Table: table, Flags: int(netlink.FLAG_ONLINK),
		Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
	})
}

// withHops opens a plane on near, near2 and near3 that packets pass through, on one CPU, because each remembers hops.
func withHops(t *testing.T, check func(p *Plane) error) {
	t.Helper()
	o := testOptions(t)
	o.Pin, o.Ports = "", []string{"near", "near2", "near3"}
	o.Transit = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/23")}
	inNamespace(t, func() error {
		if err := errors.Join(stayOnOneCPU(), hopNetwork()); err != nil {
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

var (
	farNode   = netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), conformance.Me.Port())
	farClient = netip.MustParseAddrPort("203.0.113.1:9000")

	hopRequest = inTransit{from: farClient, to: farNode, op: wire.OpRead, by: "near"}
	hopAnswer  = inTransit{from: farNode, to: farClient, op: wire.OpReply, by: "near"}
)

// hopVariants is how many values of a field are tried: so many that some share a row of hops with the usual one.
const hopVariants = 250

// rowDistance is a distance of interface indexes that share a row beside some addresses.
const rowDistance = 89

// hopFields change one field of what the FIB is asked, and make the rule for the changed packets.
var hopFields = map[string]struct {
	usual inTransit
	other func(p *inTransit, variant byte)
	rule  func(*netlink.Rule)
}{
	"source address": {hopRequest, func(p *inTransit, n byte) {
		p.from = netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 114, n}), farClient.Port())
	}, func(r *netlink.Rule) { r.Src = hopNet(203, 0, 114) }},
	"destination address": {hopRequest, func(p *inTransit, n byte) {
		p.to = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 101, n}), farNode.Port())
	}, func(r *netlink.Rule) { r.Dst = hopNet(198, 51, 101) }},
	"source port": {hopRequest, func(p *inTransit, n byte) {
		p.from = netip.AddrPortFrom(farClient.Addr(), variantPorts+uint16(n))
	}, func(r *netlink.Rule) { r.IPProto, r.Sport = unix.IPPROTO_UDP, variantRange() }},
	"destination port": {hopAnswer, func(p *inTransit, n byte) {
		p.to = netip.AddrPortFrom(farClient.Addr(), variantPorts+uint16(n))
	}, func(r *netlink.Rule) { r.IPProto, r.Dport = unix.IPPROTO_UDP, variantRange() }},
	"TOS": {hopRequest, func(p *inTransit, _ byte) { p.tos = 0x10 }, func(r *netlink.Rule) { r.Tos = 0x10 }},
	"device": {hopRequest, func(p *inTransit, n byte) {
		p.from, p.by = netip.AddrPortFrom(netip.AddrFrom4([4]byte{12 + n%111, 0, 113, 1}), farClient.Port()), "near3"
	}, func(r *netlink.Rule) { r.IifName = "near3" }},
}

const variantPorts = 20_000

func variantRange() *netlink.RulePortRange {
	return netlink.NewRulePortRange(variantPorts, variantPorts+hopVariants)
}

func hopNet(a, b, c byte) *net.IPNet {
	return &net.IPNet{IP: net.IP{a, b, c, 0}, Mask: net.CIDRMask(24, 32)}
}

// TestHopsAreOfOneQuestion: a packet goes by the rule that is for it, directly after one that differs only in what the rule
// asks for.
func TestHopsAreOfOneQuestion(t *testing.T) {
	withHops(t, func(p *Plane) error {
		for name, field := range hopFields {
			rule := netlink.NewRule()
			rule.Family, rule.Priority, rule.Table = unix.AF_INET, 100, ruleTable
			field.rule(rule)
			if err := netlink.RuleAdd(rule); err != nil {
				return fmt.Errorf("%s: add a rule: %w", name, err)
			}
		}
		for name, field := range hopFields {
			for n := range byte(hopVariants) {
				usual, other := field.usual, field.usual
				field.other(&other, n)
				if other.by != usual.by {
					usual.from = other.from
				}
				for i, packet := range []inTransit{usual, other, usual} {
					want := []byte{usualGateway, ruleGateway}[i%2]
					if got, err := packet.gateway(p); err != nil || got != want {
						return fmt.Errorf("%s, %d: packet %d goes by gateway %d, want %d: %w", name, n, i, got, want, err)
					}
				}
			}
		}
		return nil
	})
}

// TestHopsAreForgotten: packets follow a change of a route, of a neighbour and of an interface after a while.
func TestHopsAreForgotten(t *testing.T) {
	m := new(machine)
	near := func(f func(netlink.Link) error) func(*Plane) error {
		return func(*Plane) error { return m.change("near", f) }
	}
	steps := []struct {
		name   string
		change func(*Plane) error
		want   byte
	}{
		{"none", func(*Plane) error { return nil }, usualGateway},
		{"another route", near(func(l netlink.Link) error { return routeBy(l, nextGateway, 0) }), nextGateway},
		{"another neighbour", near(func(l netlink.Link) error { return setGateway(l, nextGateway, 99) }), 99},
		{"a way by near2", func(*Plane) error { return m.change("near2", byGateway(21)) }, 21},
		{"near2 made anew", func(p *Plane) error {
			err := errors.Join(m.change("near2", netlink.LinkDel), m.add("near2", 0, 1500), enableForwarding("near2"))
			p.look(slog.New(slog.NewTextHandler(io.Discard, nil)))
			return errors.Join(err, m.change("near2", byGateway(22)))
		}, 22},
	}
	withHops(t, func(p *Plane) error {
		for _, step := range steps {
			if err := step.change(p); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			if err := hopRequest.awaitGateway(p, step.want); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		return nil
	})
}

// byGateway routes all by a gateway behind an interface.
func byGateway(gateway byte) func(netlink.Link) error {
	return func(l netlink.Link) error {
		return errors.Join(setGateway(l, gateway, gateway), routeBy(l, gateway, 0))
	}
}

// awaitGateway passes packets through the node until one goes to the gateway, and checks that later ones do so too.
func (p inTransit) awaitGateway(plane *Plane, want byte) error {
	for began := time.Now(); ; {
		got, err := p.gateway(plane)
		if err == nil && got == want {
			break
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("after a minute packets leave by gateway %d, want %d: %w", got, want, err)
		}
	}
	for range 10 {
		if got, err := p.gateway(plane); err != nil || got != want {
			return fmt.Errorf("a later packet leaves by gateway %d, want %d: %w", got, want, err)
		}
	}
	return nil
}

// TestHopsKnowTheMTU: a packet that is longer than its way takes is left to the kernel, also after shorter ones.
func TestHopsKnowTheMTU(t *testing.T) {
	withHops(t, func(p *Plane) error {
		err := netlink.RouteReplace(&netlink.Route{
			LinkIndex: indexOf("near"), Gw: at(usualGateway).Addr().AsSlice(), Flags: int(netlink.FLAG_ONLINK),
			MTU: 600, MTULock: true,
			Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		})
		if err != nil {
			return err
		}
		packet := hopRequest
		packet.op = wire.OpPut
		for i, value := range []int{16, 1000, 16, 1000} {
			in, err := packet.frame(value)
			if err != nil {
				return err
			}
			want := []uint32{xdpTX, xdpPass}[i%2]
			action, out, err := runOnce(p.objects.Ingress, in, indexOf("near"))
			if err != nil || action != want || want == xdpPass && !bytes.Equal(in, out) {
				return fmt.Errorf("packet %d with %d bytes: action %d, want %d: %w", i, value, action, want, err)
			}
		}
		return nil
	})
}
