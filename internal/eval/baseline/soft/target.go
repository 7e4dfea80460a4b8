package soft

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/eval/baseline"
)

// Target is a [Node] as a [baseline.Target]: a machine on its own sockets, and a socket for every
// host around it. The hosts' addresses on loopback stand for those of the cases. Every other packet
// comes as clients send it, the rest as nodes do.
type Target[S any, M machine[S]] struct {
	protocol protocol[S, M]
	network  byte         // 127.network.0.0/16 stands for the network of the cases
	courier  *net.UDPConn // of no host; binding its address claims the network

	node     *Node[*watched[M]]
	handled  chan struct{}                   // a packet was
	self     netip.AddrPort                  // in the cases
	hosts    map[netip.AddrPort]*net.UDPConn // by their addresses in the cases; nodes have two
	awaited  map[netip.AddrPort]int          // how many packets have to come to them
	asClient bool                            // how the next packet comes
}

// machine is a protocol's machine.
type machine[S any] interface {
	Machine
	baseline.Target[S]
}

// protocol has the parts of a target that depend on the protocol.
type protocol[S any, M machine[S]] struct {
	port uint16
	make func() M
	self func(S) netip.Addr
	// moveState and movePayload return their argument with all addresses changed.
	moveState   func(S, func(netip.Addr) netip.Addr) S
	movePayload func([]byte, func(netip.Addr) netip.Addr) []byte
}

// watched is a machine that says when it has handled a packet.
type watched[M Machine] struct {
	machine M
	handled chan<- struct{}
}

// Receive implements [Machine].
func (w *watched[M]) Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet {
	out = w.machine.Receive(p, out)
	select {
	case w.handled <- struct{}{}:
	default: // an unsolicited packet; its effects are compared
	}
	return out
}

// Targets of several processes may run at once, each in a network of its own, independent of the
// protocol: all claim a network by binding the same port.
const (
	firstNetwork = 77
	lastNetwork  = 254
	claimPort    = 8887
)

// inCases is the network of the cases' hosts.
var inCases = netip.MustParsePrefix("10.88.0.0/16")

// patience is how long a packet may take on loopback.
const patience = 10 * time.Second

func newTarget[S any, M machine[S]](p protocol[S, M]) (*Target[S, M], error) {
	t := &Target[S, M]{protocol: p, handled: make(chan struct{}, 1), network: firstNetwork}
	for {
		var err error
		t.courier, err = listen(context.Background(),
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, t.network, 255, 1}), claimPort))
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) || t.network == lastNetwork {
			return nil, err
		}
		t.network++
	}
}

// Name implements [baseline.Target].
func (t *Target[S, M]) Name() string { return "the node on sockets" }

// Load implements [baseline.Target].
func (t *Target[S, M]) Load(s S) error {
	if err := t.drop(); err != nil {
		return err
	}
	t.hosts, t.asClient = make(map[netip.AddrPort]*net.UDPConn), true
	t.self = netip.AddrPortFrom(t.protocol.self(s), t.protocol.port)
	var named []netip.Addr
	moved := t.protocol.moveState(s, t.noting(&named))
	if err := t.admitNodes(named); err != nil {
		return err
	}
	m := t.protocol.make()
	if err := m.Load(moved); err != nil {
		return err
	}
	var err error
	t.node, err = Listen(context.Background(), t.outside(t.self), &watched[M]{m, t.handled})
	return err
}

// Expect implements [baseline.Remote].
func (t *Target[S, M]) Expect(in baseline.Packet, sent []baseline.Packet) error {
	if in.To != t.self || in.From == t.self {
		return fmt.Errorf("%w: a socket has no say in what is on its way to others", baseline.ErrUnsupported)
	}
	var named []netip.Addr
	t.protocol.movePayload(in.Payload, t.noting(&named))
	if err := errors.Join(t.admit(in.From), t.admitNodes(named)); err != nil {
		return err
	}
	t.awaited = make(map[netip.AddrPort]int)
	for _, p := range sent {
		switch {
		case p.To == t.self:
			return fmt.Errorf("%w: a node that sends to itself gets one packet more", baseline.ErrUnsupported)
		case p.From != t.self && p.To.Port() != t.protocol.port:
			return fmt.Errorf("%w: a socket answers in nobody else's name", baseline.ErrUnsupported)
		}
		at := p.To
		if p.From != t.self {
			at = relayAt(at)
		}
		if err := t.admit(at); err != nil {
			return err
		}
		t.awaited[at]++
	}
	return nil
}

// Step implements [baseline.Target].
func (t *Target[S, M]) Step(in baseline.Packet) ([]baseline.Packet, error) {
	select {
	case <-t.handled: // of an unsolicited packet
	default:
	}
	from, to := t.hosts[in.From], t.outside(t.self)
	payload := t.protocol.movePayload(in.Payload, t.outsideAddr)
	if !t.asClient {
		from, to, payload = t.courier, relayAt(to), relay(t.outside(in.From), payload)
	}
	t.asClient = !t.asClient
	if _, err := from.WriteToUDPAddrPort(payload, to); err != nil {
		return nil, err
	}
	select {
	case <-t.handled:
	case <-time.After(patience):
		return nil, fmt.Errorf("the node at %v did not get a packet within %v", to, patience)
	}
	t.node.Do(func(*watched[M]) {}) // returns after all output has left
	var all []baseline.Packet
	for at := range t.hosts {
		got, err := t.collect(at)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// collect returns the packets that a host has received. Expected packets may be late; any other
// arrives before a packet that the courier sends.
func (t *Target[S, M]) collect(at netip.AddrPort) (all []baseline.Packet, err error) {
	socket := t.hosts[at]
	end := t.courier.LocalAddr().(*net.UDPAddr).AddrPort()
	if _, err := t.courier.WriteToUDPAddrPort(nil, t.outside(at)); err != nil {
		return nil, err
	}
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var buffer [maxBytes]byte
	for ended := false; !ended || len(all) < t.awaited[at]; {
		n, from, err := socket.ReadFromUDPAddrPort(buffer[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return all, nil // the comparison reports the missing packet
		case err != nil:
			return nil, err
		case from == end:
			ended = true
		default:
			p, err := t.received(at, from, buffer[:n])
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// received is a packet as the cases have it.
func (t *Target[S, M]) received(at, from netip.AddrPort, b []byte) (baseline.Packet, error) {
	p := baseline.Packet{From: from, To: at, Payload: b}
	if at.Port() == t.protocol.port+relayOffset {
		if len(b) < sourceBytes {
			return p, fmt.Errorf("%x from %v to the node %v: packets between nodes begin with their source", b,
				from, at)
		}
		p.From, p.Payload = relayed(b)
		p.To = netip.AddrPortFrom(at.Addr(), t.protocol.port)
	}
	p.From, p.Payload = netip.AddrPortFrom(t.inside(p.From.Addr()), p.From.Port()), t.protocol.movePayload(
		p.Payload, t.inside)
	return p, nil
}

// State implements [baseline.Target].
func (t *Target[S, M]) State() (s S, err error) {
	t.node.Do(func(w *watched[M]) { s, err = w.machine.State() })
	if err != nil {
		return s, err
	}
	return t.protocol.moveState(s, t.inside), nil
}

// Close implements [baseline.Target].
func (t *Target[S, M]) Close() error { return errors.Join(t.drop(), t.courier.Close()) }

// drop closes the node and all hosts.
func (t *Target[S, M]) drop() error {
	var errs []error
	if t.node != nil {
		errs = append(errs, t.node.Close())
		t.node = nil
	}
	for _, socket := range t.hosts {
		errs = append(errs, socket.Close())
	}
	t.hosts = nil
	return errors.Join(errs...)
}

// admitNodes opens a socket at each node address but the node's own.
func (t *Target[S, M]) admitNodes(addresses []netip.Addr) error {
	for _, a := range addresses {
		if a == t.self.Addr() {
			continue
		}
		at := netip.AddrPortFrom(a, t.protocol.port)
		if err := errors.Join(t.admit(at), t.admit(relayAt(at))); err != nil {
			return err
		}
	}
	return nil
}

// admit opens a socket at an address if there is none.
func (t *Target[S, M]) admit(at netip.AddrPort) error {
	if !inCases.Contains(at.Addr()) {
		return fmt.Errorf("%w: no host is at %v: hosts are in %v", baseline.ErrUnsupported, at, inCases)
	}
	if t.hosts[at] != nil {
		return nil
	}
	socket, err := listen(context.Background(), t.outside(at))
	if err == nil {
		t.hosts[at] = socket
	}
	return err
}

// noting is outsideAddr that records its arguments.
func (t *Target[S, M]) noting(named *[]netip.Addr) func(netip.Addr) netip.Addr {
	return func(a netip.Addr) netip.Addr {
		*named = append(*named, a)
		return t.outsideAddr(a)
	}
}

// outside is where an address of the cases stands on this machine, inside the way back. Other addresses stay.
func (t *Target[S, M]) outside(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(t.outsideAddr(a.Addr()), a.Port())
}

func (t *Target[S, M]) outsideAddr(a netip.Addr) netip.Addr {
	return exchangeNet(a, inCases, t.onLoopback())
}

func (t *Target[S, M]) inside(a netip.Addr) netip.Addr {
	return exchangeNet(a, t.onLoopback(), inCases)
}

func (t *Target[S, M]) onLoopback() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, t.network}), inCases.Bits())
}

// exchangeNet moves an address from one network of 16 bits to another.
func exchangeNet(a netip.Addr, from, to netip.Prefix) netip.Addr {
	if !from.Contains(a) {
		return a
	}
	b, net := a.As4(), to.Addr().As4()
	b[0], b[1] = net[0], net[1]
	return netip.AddrFrom4(b)
}
