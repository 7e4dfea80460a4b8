package harness

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// Soft is a running [soft.Plane] as a [conformance.Target]. All hosts of a test are sockets on
// loopback addresses, which map to the addresses of the test. The kernel handles the layers below a
// message, so they cannot be tested here.
type Soft struct {
	plane    *soft.Plane
	hosts    map[netip.AddrPort]*net.UDPConn // by their addresses in the test
	network  byte                            // 127.network.0.0/24 maps to the network of the test
	barrier  *net.UDPConn                    // at 127.network.1.1; its owner owns the network
	barriers uint64                          // counted messages that the target itself sent
}

var _ conformance.Target = (*Soft)(nil)

// answerWait bounds a plane's answer to one message; the test fails after it.
const answerWait = 10 * time.Second

// loopback is the first byte of every address that maps to one of the test.
const loopback = 127

// Targets of several processes may run at once, each in its own network.
const (
	firstNetwork = 77
	lastNetwork  = 254
)

// NewSoft makes a target without a node.
func NewSoft() (*Soft, error) {
	m := &Soft{hosts: make(map[netip.AddrPort]*net.UDPConn), network: firstNetwork}
	for {
		var err error
		m.barrier, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(loopback, m.network, 1, 1), Port: wire.Port})
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) || m.network == lastNetwork {
			return nil, err
		}
		m.network++
	}
}

// Name implements [conformance.Target].
func (m *Soft) Name() string { return "soft" }

// Reset implements [conformance.Target].
func (m *Soft) Reset(o chain.Options) error {
	if err := m.drop(); err != nil {
		return err
	}
	// A plane with one reader handles messages in order, so that the answer to a later message
	// proves that an earlier one is done.
	var err error
	m.plane, err = soft.ListenWith(m.outside(conformance.Me), o, 1, caseClock)
	m.barriers = 0
	return err
}

// caseClock is the clock of a plane. It is constant, so that cases do not depend on the machine's
// uptime.
func caseClock() uint64 { return conformance.Now }

// drop closes the node and discards the packets still on their way to hosts.
func (m *Soft) drop() error {
	if m.plane == nil {
		return nil
	}
	err := m.plane.Close()
	m.plane = nil
	for _, socket := range m.hosts {
		if _, readErr := receiveAll(socket); err == nil {
			err = readErr
		}
	}
	return err
}

// Load implements [conformance.Target].
func (m *Soft) Load(s conformance.State) error {
	return m.plane.Visit(func(node *chain.Node) error {
		for number, shard := range s.Shards {
			if err := m.loadShard(node, number, shard); err != nil {
				return err
			}
		}
		if s.Heart != nil {
			node.SetHeart(*s.Heart)
		}
		for k, o := range s.Objects {
			node.PutObject(k, o)
		}
		for k, session := range s.Sessions {
			node.PutSession(k, session)
		}
		return nil
	})
}

func (m *Soft) loadShard(node *chain.Node, number uint16, shard conformance.Shard) error {
	c := shard.Config
	c.Members = nil
	for _, member := range shard.Config.Members {
		if err := m.host(member); err != nil {
			return err
		}
		c.Members = append(c.Members, m.outside(member))
	}
	if err := node.Configure(number, c); err != nil {
		return err
	}
	return node.Grant(number, dataplane.LeaseUntil(conformance.Now, shard.Lease))
}

// host opens a socket at an address of the test unless there is one.
func (m *Soft) host(a netip.AddrPort) error {
	if m.hosts[a] != nil || a == conformance.Me || !conformance.Net.Contains(a.Addr()) || a.Port() == 0 {
		return nil
	}
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(m.outside(a)))
	if err != nil {
		return err
	}
	m.hosts[a] = socket
	return nil
}

// Step implements [conformance.Target].
func (m *Soft) Step(b []byte) (conformance.Verdict, [][]byte, error) {
	var p frame.Packet
	outcome, ours := frame.Judge(b, conformance.Me, &p)
	if !ours || outcome != wire.Accepted || !bytes.Equal(frame.Append(nil, &p), b) {
		return 0, nil, fmt.Errorf("%w: sockets do not control the layers below a message", conformance.ErrUnsupported)
	}
	parties := []netip.AddrPort{p.From}
	for _, message := range conformance.MessagesOf(p.Message) {
		parties = append(parties, message.Client)
	}
	for _, a := range parties {
		if a.IsValid() && a.Addr().Is4() {
			if err := m.host(a); err != nil {
				return 0, nil, err
			}
		}
	}
	if p.From == conformance.Me {
		return 0, nil, fmt.Errorf("%w: the node has the socket of its own address", conformance.ErrUnsupported)
	}
	to := net.UDPAddrFromAddrPort(m.outside(conformance.Me))
	datagram := translateAll(p.Message, m.outside)
	if _, err := m.hosts[p.From].WriteToUDP(datagram, to); err != nil {
		return 0, nil, err
	}
	if err := m.await(to); err != nil {
		return 0, nil, err
	}
	sent, err := m.collect(&p, datagram)
	if len(sent) == 0 {
		return conformance.Drop, nil, err
	}
	return conformance.Sent, sent, err
}

// await returns when the plane has handled all earlier messages: it waits for the answer to a read
// of a nonexistent shard.
func (m *Soft) await(plane *net.UDPAddr) error {
	read := wire.Message{Op: wire.OpRead, Shard: wire.MaxShards - 1}
	m.barriers++
	if _, err := m.barrier.WriteToUDP(read.Append(nil), plane); err != nil {
		return err
	}
	if err := m.barrier.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
		return err
	}
	var answer [wire.VersionBytes]byte
	_, _, err := m.barrier.ReadFromUDP(answer[:])
	return err
}

// collect returns, as frames, the messages that the hosts received because of a packet. The plane
// received it as datagram.
func (m *Soft) collect(received *frame.Packet, datagram []byte) ([][]byte, error) {
	var frames [][]byte
	for a, socket := range m.hosts {
		messages, err := receiveAll(socket)
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			p := frame.Packet{
				SourceMAC: conformance.MACOf(conformance.Me.Addr()), DestMAC: conformance.MACOf(a.Addr()),
				From: conformance.Me, To: a, Message: translateAll(message, m.inside),
			}
			restoreSlots(p.Message, received.Message, datagram)
			if a == received.From {
				p.SourceMAC, p.DestMAC = received.DestMAC, received.SourceMAC
			}
			frames = append(frames, frame.Append(nil, &p))
		}
	}
	return frames, nil
}

// receiveAll reads all messages waiting in a socket.
func receiveAll(socket *net.UDPConn) (messages [][]byte, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var buffer [wire.MaxMessageBytes + 1]byte
	controlErr := raw.Control(func(fd uintptr) {
		for {
			var n int
			n, err = eintr.Value(func() (int, error) {
				n, _, err := unix.Recvfrom(int(fd), buffer[:], unix.MSG_DONTWAIT)
				return n, err
			})
			if err != nil {
				return
			}
			messages = append(messages, bytes.Clone(buffer[:n]))
		}
	})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return messages, errors.Join(err, controlErr)
}

// State implements [conformance.Target].
func (m *Soft) State() (conformance.State, error) {
	s := conformance.State{
		Objects: make(map[wire.Key]chain.Object), Sessions: make(map[chain.SessionKey]chain.Session),
	}
	var err error
	if s.Counters, err = m.plane.Counters(); err != nil {
		return s, err
	}
	own := chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeNotMine}
	if s.Counters[own] -= m.barriers; s.Counters[own] == 0 {
		delete(s.Counters, own)
	}
	return s, m.plane.Visit(func(node *chain.Node) error {
		for k, o := range node.Objects() {
			c := *o
			c.Value = bytes.Clone(o.Value)
			s.Objects[k] = c
		}
		for k, session := range node.Sessions() {
			s.Sessions[k] = session
		}
		return nil
	})
}

// Close implements [conformance.Target].
func (m *Soft) Close() error {
	err := errors.Join(m.drop(), m.barrier.Close())
	for _, socket := range m.hosts {
		err = errors.Join(err, socket.Close())
	}
	return err
}

// outside maps an address of the test to this machine, inside maps it back. Other addresses stay
// unchanged.
func (m *Soft) outside(a netip.AddrPort) netip.AddrPort {
	if !conformance.Net.Contains(a.Addr()) {
		return a
	}
	b := a.Addr().As4()
	b[0], b[1] = loopback, m.network
	return netip.AddrPortFrom(netip.AddrFrom4(b), a.Port())
}

func (m *Soft) inside(a netip.AddrPort) netip.AddrPort {
	b, net := a.Addr().As4(), conformance.Net.Addr().As4()
	if b[0] != loopback || b[1] != m.network || b[2] != net[2] {
		return a
	}
	b[0], b[1] = net[0], net[1]
	return netip.AddrPortFrom(netip.AddrFrom4(b), a.Port())
}

// translateAll changes the clients' addresses in a message, or in all messages of a bundle.
func translateAll(datagram []byte, change func(netip.AddrPort) netip.AddrPort) []byte {
	b := wire.Bundle(bytes.Clone(datagram))
	if wire.IsHeartbeat(b) {
		return b
	}
	if !wire.IsBundle(b) || !b.Sound() {
		return translate(b, change)
	}
	for i := range b.Count() {
		if message, ok := b.Message(i); ok {
			copy(message, translate(message, change))
		}
	}
	return b
}

// restoreSlots restores the addresses in leftover bytes of a bundle's slots, where a message became
// shorter: before is the received bundle with the addresses of the test, and outside the same as
// the plane received it.
func restoreSlots(sent, before, outside []byte) {
	if !wire.IsBundle(sent) || len(sent) != len(before) {
		return
	}
	b := wire.Bundle(sent)
	for i := range b.Count() {
		message, _ := b.Message(i)
		start := wire.BundleBytes + i*(wire.SlotBytes+b.Room()) + wire.SlotBytes
		for at := start + len(message); at < start+b.Room(); at++ {
			if b[at] == outside[at] {
				b[at] = before[at]
			}
		}
	}
}

// translate changes the client's address in a message. It does not change a malformed message (a
// wrong checksum, reserved bits): no node reads such a message that far.
func translate(b []byte, change func(netip.AddrPort) netip.AddrPort) []byte {
	var m wire.Message
	if len(b) > wire.MaxMessageBytes || !wire.Peek(b, &m) || !m.Client.IsValid() || !m.Client.Addr().Is4() ||
		!bytes.Equal(m.Append(nil), b) {
		return b
	}
	m.Client = change(m.Client)
	return m.Append(nil)
}
