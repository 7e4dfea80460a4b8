package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// Machine is the XDP program as a [conformance.Target]: the bytecode that nodes run, executed by the kernel one frame at a
// time with BPF_PROG_RUN, in a network namespace whose only device is a veth with the addresses of a test.
//
// It is also a node for a simulation of many: [NewMachineAt] gives it an address, [Machine.SetClock] a time, and
// [Machine.Receive] one message after the other. Between them it has, from the first [Machine.Reset] on, these methods of
// [dataplane.Plane]: ConfigureAll, Config, Renew, Object, Dirty, Sessions, DropSession, Export, Import, Drop, Loads and
// Usage. [Machine.Clear] is the fast way to a node without state. What it does depends on nothing but the calls: walks
// over tables visit in the same order each time. Loads go on counting over a Clear. It is used by one goroutine.
type Machine struct {
	*tables // nil before the first Reset

	self    netip.AddrPort
	bed     *Bed
	ifindex int            // of near
	transit bool           // route messages to other nodes, which cases expect to pass
	before  chain.Counters // counted before the last Reset
	link    link.Link
}

var _ conformance.Target = (*Machine)(nil)

// NewMachine makes the namespace of the node at [conformance.Me]. It needs the privileges of [Open].
func NewMachine() (*Machine, error) { return NewMachineAt(conformance.Me) }

// NewMachineAt makes the namespace of a node at another address of [conformance.Net]. It takes some milliseconds, and
// the first Reset, which loads the program, longer.
func NewMachineAt(self netip.AddrPort) (*Machine, error) {
	if !conformance.Net.Contains(self.Addr()) || self.Port() == 0 {
		return nil, fmt.Errorf("%v is no address and port in %v", self, conformance.Net)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("BPF needs privileges: run as root: %w", err)
	}
	m := &Machine{self: self}
	var err error
	if m.bed, err = NewBed(macOf(self.Addr().As4()), m.wire); err != nil {
		return nil, err
	}
	return m, nil
}

// wire gives near the node's address, and every neighbour a fixed link address.
func (m *Machine) wire(near netlink.Link) error {
	me := m.self.Addr().As4()
	m.ifindex = near.Attrs().Index
	bits := conformance.Net.Bits()
	address := &netlink.Addr{IPNet: &net.IPNet{IP: me[:], Mask: net.CIDRMask(bits, 32)}}
	if err := netlink.AddrAdd(near, address); err != nil {
		return err
	}
	for host := conformance.Net.Addr().Next(); conformance.Net.Contains(host); host = host.Next() {
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

// do runs f on the machine's thread.
func (m *Machine) do(f func() error) error { return m.bed.Do(f) }

// Name implements [conformance.Target].
func (m *Machine) Name() string { return "xdp" }

// Reset implements [conformance.Target].
func (m *Machine) Reset(o chain.Options) error {
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
// State, which go on: to read them all takes much longer than the rest.
func (m *Machine) Clear() error {
	m.shards.clear()
	clear(m.usage)
	for _, table := range []*ebpf.Map{m.objects.Objects, m.objects.Lanes} {
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

func (m *Machine) load(o chain.Options) error {
	c := constantsOf(m.self, o)
	c["nq_transit"] = flag(m.transit)
	c["nq_test_ifindex"] = uint32(m.ifindex)
	c["nq_test_clock"] = flag(true)
	objects, err := load(o, c, "", unix.BPF_F_ZERO_SEED)
	if err != nil {
		return err
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
	return fillFans(m.objects, []port{{name: "near", index: m.ifindex, mac: [6]byte(macOf(m.self.Addr().As4()))}})
}

func (m *Machine) unload() {
	if m.tables != nil {
		m.tables.close()
		m.tables = nil
	}
}

// caseNow is the time at which a case begins, and ends: later than every lease that is long over.
const caseNow = uint64(24 * time.Hour)

// Load implements [conformance.Target].
func (m *Machine) Load(s conformance.State) error {
	configs := make(map[uint16]chain.ShardConfig, len(s.Shards))
	for number, shard := range s.Shards {
		configs[number] = shard.Config
	}
	if err := m.ConfigureAll(configs); err != nil {
		return err
	}
	if err := m.SetClock(caseNow); err != nil {
		return err
	}
	for number, shard := range s.Shards {
		m.shards.grant(number, leaseFrom(caseNow, shard.Lease))
	}
	for k, o := range s.Objects {
		entry, err := encodeObject(o, objectBytes+cellBytes(m.options))
		if err != nil {
			return err
		}
		if err := m.objects.Objects.Put(keyBytes(k), entry); err != nil {
			return err
		}
	}
	for k, session := range s.Sessions {
		if err := m.objects.Lanes.Put(laneKeyOf(k), laneOf(k, session)); err != nil {
			return err
		}
	}
	return nil
}

const (
	etherBytes = frame.EthernetBytes
	planMagic  = 0x4e515031
	mostCopies = wire.MaxChain
)

// Step implements [conformance.Target].
func (m *Machine) Step(frame []byte) (verdict conformance.Verdict, sent [][]byte, err error) {
	if len(frame) < etherBytes {
		return conformance.Pass, [][]byte{frame}, nil // no device delivers it
	}
	err = m.do(func() error {
		verdict, sent, err = m.step(frame)
		return err
	})
	return verdict, sent, err
}

func (m *Machine) step(frame []byte) (conformance.Verdict, [][]byte, error) {
	action, out, err := m.execute(m.objects.Ingress, frame)
	if err != nil {
		return 0, nil, err
	}
	switch action {
	case xdpPass:
		return conformance.Pass, [][]byte{out}, nil
	case xdpDrop:
		return conformance.Drop, nil, nil
	case xdpTX:
		return conformance.Sent, [][]byte{out}, nil
	case xdpRedirect:
		sent, err := m.copies(out)
		return conformance.Sent, sent, err
	}
	return 0, nil, fmt.Errorf("the program returned action %d", action)
}

// copies runs the egress program on as many clones as it takes, like a broadcast to the devmap would.
func (m *Machine) copies(stamped []byte) ([][]byte, error) {
	if binary.NativeEndian.Uint32(stamped) != planMagic {
		return nil, errors.New("a redirect that is no broadcast, though there is only one port")
	}
	var sent [][]byte
	for range mostCopies + 1 {
		action, out, err := m.execute(m.objects.EgressTest, stamped)
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
	return nil, fmt.Errorf("the plan holds more than %d copies", mostCopies)
}

func (m *Machine) execute(program *ebpf.Program, frame []byte) (uint32, []byte, error) {
	return runOnce(program, frame, m.ifindex)
}

// State implements [conformance.Target].
func (m *Machine) State() (conformance.State, error) {
	s := conformance.State{
		Objects: make(map[wire.Key]chain.Object), Sessions: make(map[chain.SessionKey]chain.Session),
	}
	s.Counters = m.counts.read()
	for c, n := range m.before {
		if s.Counters[c] -= n; s.Counters[c] == 0 {
			delete(s.Counters, c)
		}
	}
	var laneKey nqLaneKey
	var lane nqLane
	lanes := m.objects.Lanes.Iterate()
	for lanes.Next(&laneKey, &lane) {
		s.Sessions[laneKey.sessionKey()] = lane.session()
	}
	if err := lanes.Err(); err != nil {
		return s, err
	}
	var key, entry []byte
	entries := m.objects.Objects.Iterate()
	for entries.Next(&key, &entry) {
		_, object, err := decodeObject(entry)
		if err != nil {
			return s, err
		}
		s.Objects[keyOf(key)] = object
	}
	return s, entries.Err()
}

// SetKeys gives the node of a machine with tags its keys; they stay until the options change.
func (m *Machine) SetKeys(k *wire.Keyring) error { return m.objects.setKeys(k) }

// Close implements [conformance.Target].
func (m *Machine) Close() error {
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
