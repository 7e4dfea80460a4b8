package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane/conformance"
	"github.com/netcraq/netcraq/internal/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Machine is the XDP program as a [conformance.Target]: the bytecode that nodes run, executed by the kernel one frame at a
// time with BPF_PROG_RUN, in a network namespace whose only device is a veth with the addresses of a test.
type Machine struct {
	work    chan func()
	ended   chan struct{}
	ifindex int
	objects *objects
	shards  *shardTable
	options chain.Options
	transit bool           // route messages to other nodes, which cases expect to pass
	before  chain.Counters // counted before the last Reset
	link    link.Link
}

var _ conformance.Target = (*Machine)(nil)

// NewMachine makes the namespace. It needs the privileges of [Open].
func NewMachine() (*Machine, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("BPF needs privileges: run as root: %w", err)
	}
	m := &Machine{work: make(chan func()), ended: make(chan struct{})}
	made := make(chan error)
	go m.run(made)
	if err := <-made; err != nil {
		close(m.work)
		return nil, err
	}
	return m, nil
}

// run executes all work on one thread, in a namespace of its own and on one CPU: a program and its egress program share
// per-CPU memory. The thread ends with the goroutine, and the namespace with it.
func (m *Machine) run(made chan<- error) {
	defer close(m.ended)
	runtime.LockOSThread()
	made <- m.enter()
	for f := range m.work {
		f()
	}
}

func (m *Machine) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w: run as root", err)
	}
	cpu := 0
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	for !set.IsSet(cpu) {
		cpu++
	}
	set.Zero()
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	return m.wire()
}

// wire makes the veth with the node's address and a fixed link address for every neighbour.
func (m *Machine) wire() error {
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
	veth.Name = "near"
	veth.HardwareAddr = macOf(conformance.Me.Addr().As4())
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making a veth pair: %w", err)
	}
	for _, name := range []string{"lo", "near", "far"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		if name == "near" {
			m.ifindex = l.Attrs().Index
		}
	}
	near, err := netlink.LinkByIndex(m.ifindex)
	if err != nil {
		return err
	}
	bits := conformance.Net.Bits()
	me := conformance.Me.Addr().As4()
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
func (m *Machine) do(f func() error) error {
	result := make(chan error)
	m.work <- func() { result <- f() }
	return <-result
}

// Name implements [conformance.Target].
func (m *Machine) Name() string { return "xdp" }

// Reset implements [conformance.Target].
func (m *Machine) Reset(o chain.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return m.do(func() error {
		if m.objects != nil && o == m.options {
			return m.clear()
		}
		m.unload()
		return m.load(o)
	})
}

// clear empties the tables, which is faster than to load the program again.
func (m *Machine) clear() error {
	m.shards.clear()
	for _, table := range []*ebpf.Map{m.objects.Objects, m.objects.Lanes} {
		if err := deleteAll(table); err != nil {
			return err
		}
	}
	var err error
	m.before, err = m.objects.counters()
	return err
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
	c := constantsOf(conformance.Me, o)
	c["nq_transit"] = flag(m.transit)
	c["nq_test_ifindex"] = uint32(m.ifindex)
	var err error
	if m.objects, err = load(o, c, ""); err != nil {
		return err
	}
	if m.shards, err = mapShards(m.objects, o.Shards); err != nil {
		return err
	}
	m.options, m.before = o, nil
	if m.link == nil { // a device runs tests only once it has been set up for XDP
		m.link, err = link.AttachXDP(link.XDPOptions{Program: m.objects.Ingress, Interface: m.ifindex})
	} else {
		err = m.link.Update(m.objects.Ingress)
	}
	if err != nil {
		return err
	}
	return fillFans(m.objects, []port{{name: "near", index: m.ifindex, mac: [6]byte(macOf(conformance.Me.Addr().As4()))}})
}

func (m *Machine) unload() {
	if m.shards != nil {
		m.shards.close()
		m.shards = nil
	}
	if m.objects != nil {
		m.objects.close()
		m.objects = nil
	}
}

// Load implements [conformance.Target].
func (m *Machine) Load(s conformance.State) error {
	configs := make(map[uint16]chain.ShardConfig, len(s.Shards))
	for number, shard := range s.Shards {
		configs[number] = shard.Config
	}
	if err := m.configure(configs); err != nil {
		return err
	}
	for number, shard := range s.Shards {
		m.shards.grant(number, shard.Lease)
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

func (m *Machine) configure(configs map[uint16]chain.ShardConfig) error {
	if err := chain.ValidateAll(configs, m.options.Shards); err != nil {
		return err
	}
	m.shards.prepare(configs)
	m.shards.commit(configs)
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
	var err error
	if s.Counters, err = m.objects.counters(); err != nil {
		return s, err
	}
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

// Close implements [conformance.Target].
func (m *Machine) Close() error {
	err := m.do(func() error {
		if m.link != nil {
			return m.link.Close()
		}
		return nil
	})
	m.unload()
	close(m.work)
	<-m.ended
	return err
}
