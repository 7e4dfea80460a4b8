package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Offline is the XDP program without a network: the bytecode that nodes run, executed by the kernel one frame at a
// time with BPF_PROG_RUN, in a network namespace whose only device is a veth with the addresses of a network of the
// caller's.
//
// Tests and simulations use it. [Offline.SetClock] gives it a time, [Offline.Run] one frame after the other. Between
// them it has, from the first [Offline.Reset] on, these methods of [dataplane.Plane]: ConfigureAll, Config, Renew,
// Object, Dirty, Sessions, DropSession, Export, Import, Drop, Loads and Usage. [Offline.Clear] is the fast way to a
// node without state. Its behaviour depends on nothing but the calls: walks over tables visit in the same order each
// time. Loads go on counting over a Clear. It is used by one goroutine.
type Offline struct {
	*tables // nil before the first Reset

	Transit []netip.Prefix // from the next Reset on, as in Options

	self    netip.AddrPort
	network netip.Prefix
	bed     *Bed
	ifindex int            // of near
	before  chain.Counters // counted before the last Reset
	link    link.Link
	nearby  *Nearby
	change  Change // nil: none
	secret  secret
}

// offlineSecret gives each run the same places.
var offlineSecret = secret{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9}

// Action is the program's decision on a frame.
type Action uint8

const (
	// Passed: not the node's, handed to the kernel.
	Passed Action = iota
	// Dropped: consumed, nothing sent.
	Dropped
	// Sent: consumed, at least one frame sent.
	Sent
)

// NewOffline makes the namespace of a node at an address of a network, in which every host has a fixed link address. It
// needs the privileges of [Open], and takes some milliseconds; the first Reset, which loads the program, takes longer.
func NewOffline(self netip.AddrPort, network netip.Prefix) (*Offline, error) {
	if !network.Contains(self.Addr()) || self.Port() == 0 {
		return nil, fmt.Errorf("%v is no address and port in %v", self, network)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("BPF needs privileges: run as root: %w", err)
	}
	m := &Offline{self: self, network: network, secret: offlineSecret}
	var err error
	if m.bed, err = NewBed(macOf(self.Addr().As4()), m.wire); err != nil {
		return nil, err
	}
	return m, nil
}

// wire gives near the node's address, and every neighbour a fixed link address.
func (m *Offline) wire(near netlink.Link) error {
	m.ifindex = near.Attrs().Index
	if err := addAddress(near, netip.PrefixFrom(m.self.Addr(), m.network.Bits())); err != nil {
		return err
	}
	for host := m.network.Addr().Next(); m.network.Contains(host); host = host.Next() {
		a := host.As4()
		err := netlink.NeighAdd(&netlink.Neigh{
			LinkIndex: m.ifindex, State: netlink.NUD_PERMANENT, IP: a[:], HardwareAddr: macOf(a),
		})
		if err != nil {
			return fmt.Errorf("neighbour %v: %w", host, err)
		}
	}
	return errors.Join(enableForwarding(loopback), enableForwarding("near"))
}

func macOf(a [4]byte) net.HardwareAddr { return net.HardwareAddr{0x02, 0x00, a[0], a[1], a[2], a[3]} }

// do runs f on the node's thread.
func (m *Offline) do(f func() error) error { return m.bed.Do(f) }

// Self is the address of the node.
func (m *Offline) Self() netip.AddrPort { return m.self }

// Reset makes a node without state, counts or configuration.
func (m *Offline) Reset(o chain.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return m.do(func() error {
		if m.tables != nil && o == m.options {
			if err := m.Clear(); err != nil {
				return err
			}
			m.before = m.counts.read()
			return nil
		}
		m.unload()
		return m.load(o)
	})
}

// Clear makes the node one without state or configuration, as Reset with the same options does, but for the counts of
// Counts, which go on: to read them all takes much longer than the rest.
func (m *Offline) Clear() error {
	m.shards.clear()
	clear(m.usage)
	clear(m.holders)
	if err := m.objects.Heart.Put(uint32(0), nqHeart{}); err != nil {
		return err
	}
	m.table.clear()
	emptied := []*ebpf.Map{m.objects.Sessions}
	if m.options.AnswerRate > 0 {
		emptied = append(emptied, m.objects.Answered)
	}
	for _, table := range emptied {
		if err := deleteAll(table); err != nil {
			return err
		}
	}
	return nil
}

func deleteAll(table *ebpf.Map) error {
	for {
		key, err := table.NextKeyBytes(nil)
		if err != nil || key == nil {
			return err
		}
		if err := table.Delete(key); err != nil {
			return err
		}
	}
}

func (m *Offline) load(o chain.Options) error {
	c := constantsOf(m.self, o)
	c.transit(m.Transit)
	c["nq_test_ifindex"] = uint32(m.ifindex)
	c["nq_test_clock"] = flag(true)
	c["nq_secret"] = m.secret
	spec, err := prepare(o, c)
	if err != nil {
		return err
	}
	if err := m.change.apply(spec); err != nil {
		return err
	}
	objects, err := loadSpec(spec, m.change.options(), unix.BPF_F_ZERO_SEED)
	if err != nil {
		return m.change.explain(err)
	}
	m.tables, m.before = &tables{objects: objects}, nil
	if err := m.open(o, func() error { return nil }); err != nil { // no frame is under way between two calls
		return err
	}
	if m.link == nil { // a device runs tests only once it has been set up for XDP
		m.link, err = link.AttachXDP(link.XDPOptions{Program: m.objects.Ingress, Interface: m.ifindex})
	} else {
		err = m.link.Update(m.objects.Ingress)
	}
	if err != nil {
		return err
	}
	m.nearby = newNearby()
	m.nearby.change = m.change
	if err := m.nearby.load(m.objects.maps(), o.CellBytes, c); err != nil {
		return m.change.explain(err)
	}
	return fillGroups(m.objects, []port{{name: "near", index: m.ifindex, mac: [6]byte(macOf(m.self.Addr().As4()))}})
}

func (m *Offline) unload() {
	if m.nearby != nil {
		_ = m.nearby.Close()
		m.nearby = nil
	}
	if m.tables != nil {
		m.tables.close()
		m.tables = nil
	}
}

// SetClock sets the time that leases are measured on, in nanoseconds. It stands still.
func (m *Offline) SetClock(now uint64) error {
	return errors.Join(m.objects.TestNow.Set(now), m.nearby.testNow.Set(now))
}

// ReadNearby reads as a process of the node's machine does: see [Nearby.Read].
func (m *Offline) ReadNearby(
	keys []wire.Key, answer func(i int, version uint64, epoch uint32, value []byte),
) error {
	return m.nearby.Read(keys, answer)
}

// Grant lets a shard be read until a time of the node's clock.
func (m *Offline) Grant(shard uint16, until uint64) { m.shards.grant(shard, until) }

// PutObject stores an object as if the chain had.
func (m *Offline) PutObject(k wire.Key, o chain.Object) error {
	if err := m.objects.importObjects([]dataplane.KeyedObject{{Key: k, Object: o}}, m.options); err != nil {
		return err
	}
	m.table.setUses(k, o.Reads, o.Writes)
	return nil
}

// PutSession stores a session as if the chain had.
func (m *Offline) PutSession(k chain.SessionKey, s chain.Session) error {
	return m.objects.Sessions.Put(sessionKeyOf(k), sessionOf(k, s))
}

const (
	etherBytes    = frame.EthernetBytes
	frameTagMagic = 0x4e515031
	maxClones     = wire.MaxChain
)

// Run hands the node one frame and returns the action and the frames that the node sent. If it passed, the one
// frame returned is the one that the kernel got.
func (m *Offline) Run(frame []byte) (action Action, sent [][]byte, err error) {
	if len(frame) < etherBytes {
		return Passed, [][]byte{frame}, nil // no device delivers it
	}
	err = m.do(func() error {
		action, sent, err = m.run(frame)
		return err
	})
	return action, sent, err
}

func (m *Offline) run(frame []byte) (Action, [][]byte, error) {
	action, out, err := m.execute(m.objects.Ingress, frame)
	if err != nil {
		return 0, nil, err
	}
	switch action {
	case xdpPass:
		return Passed, [][]byte{out}, nil
	case xdpDrop:
		return Dropped, nil, nil
	case xdpTX:
		return Sent, [][]byte{out}, nil
	case xdpRedirect:
		sent, err := m.clones(out)
		return Sent, sent, err
	}
	return 0, nil, fmt.Errorf("the program returned action %d", action)
}

// clones runs the egress program until it makes no more clones, as a broadcast to the devmap would.
func (m *Offline) clones(tagged []byte) ([][]byte, error) {
	if binary.NativeEndian.Uint32(tagged) != frameTagMagic {
		return nil, errors.New("a redirect that is no broadcast, though there is only one port")
	}
	var sent [][]byte
	for range maxClones + 1 {
		action, out, err := m.execute(m.objects.EgressTest, tagged)
		if err != nil {
			return nil, err
		}
		if action == xdpDrop {
			return sent, nil
		}
		if action != xdpPass {
			return nil, fmt.Errorf("the egress program returned action %d", action)
		}
		sent = append(sent, out)
	}
	return nil, fmt.Errorf("the descriptor holds more than %d clones", maxClones)
}

func (m *Offline) execute(program *ebpf.Program, frame []byte) (uint32, []byte, error) {
	return runOnce(program, frame, m.ifindex)
}

// Counts returns the counts since the last Reset that are not zero.
func (m *Offline) Counts() chain.Counters {
	counts := m.counts.read()
	for c, n := range m.before {
		if counts[c] -= n; counts[c] == 0 {
			delete(counts, c)
		}
	}
	return counts
}

// AllObjects returns all objects of the node.
func (m *Offline) AllObjects() (map[wire.Key]chain.Object, error) { return m.table.all(), nil }

// AllSessions returns the sessions that the node has.
func (m *Offline) AllSessions() (map[chain.SessionKey]chain.Session, error) {
	all := make(map[chain.SessionKey]chain.Session)
	var key nqSessionKey
	var entry nqSession
	sessions := m.objects.Sessions.Iterate()
	for sessions.Next(&key, &entry) {
		all[key.sessionKey()] = entry.session()
	}
	return all, sessions.Err()
}

// SetKeys gives a node with tags its keys; they stay until the options change.
func (m *Offline) SetKeys(k *wire.Keyring) error { return m.objects.setKeys(k) }

// SetHeart tells the node how to recognise its heartbeats (H1).
func (m *Offline) SetHeart(h chain.Heart) error {
	return m.objects.setHeart(h, func() error { return nil }) // one program runs at a time
}

// Granted is [dataplane.Plane].Granted.
func (m *Offline) Granted() (chain.Granted, error) { return m.objects.granted() }

// Close frees the node's resources.
func (m *Offline) Close() error {
	err := m.do(func() error {
		if m.link != nil {
			return m.link.Close()
		}
		return nil
	})
	m.unload()
	m.bed.Close()
	return err
}
