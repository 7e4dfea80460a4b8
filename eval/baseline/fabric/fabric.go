package fabric

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Machine is a node, or the switch in the middle: a packet in, packets out.
type Machine interface {
	Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet
}

// Fabric is the network. Its methods may be called from several goroutines at once.
type Fabric struct {
	device *device
	ended  chan struct{} // closed when nothing is carried any more

	mu      sync.Mutex
	middle  Machine
	nodes   map[netip.Addr]*node
	loss    float64
	rng     *rand.Rand
	queue   []baseline.Packet
	out     []byte
	failure error
}

type node struct {
	machine Machine
	off     bool
}

// Open makes a network without nodes. Its middle switch forwards everything. The seed decides
// which packets are lost.
func Open(seed uint64) (*Fabric, error) {
	d, err := openDevice()
	if err != nil {
		return nil, err
	}
	f := &Fabric{
		device: d,
		ended:  make(chan struct{}),
		nodes:  make(map[netip.Addr]*node),
		rng:    rand.New(rand.NewPCG(seed, 0)),
	}
	go f.serve()
	return f, nil
}

// Add puts a node into the network.
func (f *Fabric) Add(at netip.Addr, m Machine) {
	f.With(func() { f.nodes[at] = &node{machine: m} })
}

// SetMiddle makes a machine the switch in the middle.
func (f *Fabric) SetMiddle(m Machine) {
	f.With(func() { f.middle = m })
}

// With runs f, which may read or change machines, while no packet is in flight.
func (f *Fabric) With(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// Power takes a node's power, or gives it back; its machine stays as it is.
func (f *Fabric) Power(at netip.Addr, on bool) {
	f.With(func() { f.nodes[at].off = !on })
}

// Alive reports whether a node has power.
func (f *Fabric) Alive(at netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.nodes[at].off
}

// Lose has every link lose a share of the packets, 0 to 1.
func (f *Fabric) Lose(share float64) {
	f.With(func() { f.loss = share })
}

// Listen makes a host's socket.
func (f *Fabric) Listen() (*net.UDPConn, error) { return f.device.listen() }

// Send has a node send a packet that no machine made: its agent's.
func (f *Fabric) Send(p baseline.Packet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.carry(p)
}

// Err says why the network carries nothing any more; nil while it does.
func (f *Fabric) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// Close removes the network. Sockets that hosts have stay until they are closed.
func (f *Fabric) Close() error {
	err := f.device.close()
	<-f.ended
	return err
}

// maxPacketBytes is more than the device's packets have.
const maxPacketBytes = 2048

// ipv4 is the EtherType of frames. Packets of the device begin after it.
var ipv4 = [2]byte{0x08, 0x00}

// serve forwards the packets that hosts send.
func (f *Fabric) serve() {
	defer close(f.ended)
	b := make([]byte, maxPacketBytes)
	copy(b[frame.EthernetBytes-len(ipv4):], ipv4[:])
	for {
		n, err := f.device.file.Read(b[frame.EthernetBytes:])
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				f.With(func() { f.failure = fmt.Errorf("read from the TUN device: %w", err) })
			}
			return
		}
		p, ok := frame.Datagram(b[:frame.EthernetBytes+n])
		if !ok {
			continue // nothing of ours: hosts send router solicitations and the like
		}
		f.mu.Lock()
		f.carry(baseline.Packet{From: p.From, To: p.To, Payload: p.Message})
		f.mu.Unlock()
	}
}

// maxCarried bounds the packets that one packet can cause, like a time to live: failure rules may
// form a loop.
const maxCarried = 8 * wire.MaxChain

// carry delivers a packet and all packets that it causes. The caller holds the lock.
func (f *Fabric) carry(p baseline.Packet) {
	f.queue = append(f.queue[:0], p)
	for done := 0; done < len(f.queue) && done < maxCarried; done++ {
		if p := f.queue[done]; !f.lost() { // to the middle
			f.pass(p)
		}
	}
}

// pass is the switch in the middle, with the link behind it.
func (f *Fabric) pass(p baseline.Packet) {
	if f.middle == nil {
		f.arrive(p)
		return
	}
	for _, p := range f.middle.Receive(p, nil) {
		f.arrive(p)
	}
}

func (f *Fabric) arrive(p baseline.Packet) {
	if f.lost() {
		return
	}
	if p.To.Addr() == hostAddr {
		f.deliver(p)
		return
	}
	if n := f.nodes[p.To.Addr()]; n != nil && !n.off {
		f.queue = n.machine.Receive(p, f.queue)
	}
}

func (f *Fabric) lost() bool { return f.loss > 0 && f.rng.Float64() < f.loss }

// deliver hands a packet to the hosts' side.
func (f *Fabric) deliver(p baseline.Packet) {
	f.out = frame.Append(f.out[:0], &frame.Packet{From: p.From, To: p.To, Message: p.Payload})
	_, _ = f.device.file.Write(
		f.out[frame.EthernetBytes:]) // packets that the device can't buffer are lost, as on any link
}
