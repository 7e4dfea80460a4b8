package bench

import (
	"bytes"
	_ "embed" // the wires' program
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

//go:embed line.o
var wireObject []byte

// routeBlackhole is the type of a route that drops packets.
const routeBlackhole = unix.RTN_BLACKHOLE

// wires is a host between all hosts of a line. Every link is two veth pairs that meet there.
// eval/bpf/load/line.bpf.c forwards frames between them, drops some, and limits switches.
type wires struct {
	host       *host
	collection *ebpf.Collection
	undo       *undo
	made       int
}

// wireEnd is one end of a wire.
type wireEnd struct {
	host     *host
	name     string
	addr     netip.Addr
	toSwitch int // number of the switch there, from 1 on; 0: none
}

func newWires(undo *undo) (*wires, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(wireObject))
	if err != nil {
		return nil, fmt.Errorf("read the wires' object: %w", err)
	}
	w := &wires{undo: undo}
	if w.collection, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the wires' program: %w", err)
	}
	undo.add(w.collection.Close)
	if w.host, err = newHost(); err != nil {
		return nil, err
	}
	undo.add(w.host.close)
	return w, w.park()
}

// park keeps the program of background traffic in the kernel's XDP dispatcher, as load.park does.
func (w *wires) park() error {
	idle, err := w.host.idlePort()
	if err != nil {
		return err
	}
	attached, err := attach(w.collection.Programs["background"], idle, link.XDPDriverMode)
	if err != nil {
		return err
	}
	w.undo.add(func() { attached.Close() })
	return nil
}

// connect joins two hosts by a wire. Each end has a static neighbour entry for the other.
func (w *wires) connect(a, b wireEnd) (*port, *port, error) {
	left, leftIndex, err := w.plug(a)
	if err != nil {
		return nil, nil, err
	}
	right, rightIndex, err := w.plug(b)
	if err != nil {
		return nil, nil, err
	}
	type end struct{ Exit, To uint32 }
	ends := map[int]end{
		leftIndex:  {uint32(rightIndex), uint32(b.toSwitch)},
		rightIndex: {uint32(leftIndex), uint32(a.toSwitch)},
	}
	for at, leads := range ends {
		if err := w.collection.Maps["ends"].Put(uint32(at), leads); err != nil {
			return nil, nil, fmt.Errorf("make a wire: %w", err)
		}
	}
	if err := left.knows(right); err != nil {
		return nil, nil, err
	}
	return left, right, right.knows(left)
}

// plug makes a veth pair between a host and the wires. It returns the host's end and the index of
// the other end.
func (w *wires) plug(e wireEnd) (*port, int, error) {
	w.made++
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: e.name, MTU: 1500},
		PeerName:  fmt.Sprintf("w%d", w.made), PeerNamespace: netlink.NsFd(w.host.ns), PeerMTU: 1500,
	}
	if err := e.host.handle.LinkAdd(pair); err != nil {
		return nil, 0, fmt.Errorf("make a veth pair: %w", err)
	}
	own, err := openPort(e.host, e.name, e.addr)
	if err != nil {
		return nil, 0, err
	}
	other, err := w.host.handle.LinkByName(pair.PeerName)
	if err != nil {
		return nil, 0, err
	}
	if err := w.host.handle.LinkSetUp(other); err != nil {
		return nil, 0, err
	}
	far := &port{host: w.host, name: pair.PeerName, index: other.Attrs().Index}
	attached, err := attach(w.collection.Programs["wire"], far, link.XDPDriverMode)
	if err != nil {
		return nil, 0, err
	}
	w.undo.add(func() { attached.Close() })
	return own, far.index, nil
}

// lose sets the loss of every wire in percent.
func (w *wires) lose(percent float64) error {
	return w.collection.Variables["loss"].Set(uint32(percent * 1e4))
}

// limit is struct limit of the wires' program.
type limit struct{ FrameNs, BurstNs, BusyUntilNs, Refused uint64 }

// limitBurst is the backlog of a limited switch in frames, about the length of a switch's queue.
const limitBurst = 64

// setLimits limits every switch to framesPerSecond; 0 removes the limit.
func (w *wires) setLimits(switches int, framesPerSecond float64) error {
	var l limit
	if framesPerSecond > 0 {
		l.FrameNs = uint64(float64(time.Second) / framesPerSecond)
		l.BurstNs = limitBurst * l.FrameNs
	}
	for i := range switches {
		if err := w.collection.Maps["switches"].Put(uint32(i+1), l); err != nil {
			return fmt.Errorf("limit a switch: %w", err)
		}
	}
	return nil
}
