package lab

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

//go:embed fault.o
var wireObject []byte

// wireRule and wireCount mirror struct rule and struct injected of bpf/tools/fault.bpf.c.
type wireRule struct{ Loss, Duplicate, Corrupt, Spared, Off uint32 }

// wirePair mirrors struct pair; it holds IPv4 addresses.
type wirePair struct{ From, To [4]byte }

type wireCount struct{ Frames, Lost, Duplicated, Corrupted, Cut uint64 }

// wireDevice returns the name of the wires' device at host's end of its link to peer. Frames from
// host to peer arrive there.
func wireDevice(host, peer string) string { return host + "-" + peer }

// makeWires attaches the wire program to every device in the namespace "wires". The devices keep
// the program and the program keeps its maps. Nothing is pinned, so all of it disappears with the
// namespace.
func (l *Lab) makeWires() error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(wireObject))
	if err != nil {
		return err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	objects, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load the wires' XDP program: %w", err)
	}
	defer objects.Close()
	exitSpec := spec.Maps["exits"].InnerMap
	// Device maps resolve interfaces in the caller's namespace.
	return inNamespace(nsPath(l.Name, wiresHost), func() error {
		for _, link := range l.Plan.Links {
			for _, end := range []struct{ host, peer string }{{link.A, link.B}, {link.B, link.A}} {
				if err := connect(objects, exitSpec, wireDevice(end.host, end.peer), wireDevice(end.peer, end.host)); err != nil {
					return fmt.Errorf("wire %s to %s: %w", end.host, end.peer, err)
				}
			}
		}
		return nil
	})
}

// connect forwards frames that arrive at one device to another.
func connect(objects *ebpf.Collection, exitSpec *ebpf.MapSpec, from, to string) error {
	in, err := netlink.LinkByName(from)
	if err != nil {
		return err
	}
	out, err := netlink.LinkByName(to)
	if err != nil {
		return err
	}
	exit, err := ebpf.NewMap(exitSpec)
	if err != nil {
		return err
	}
	defer exit.Close()
	for slot := range exitSpec.MaxEntries {
		if err := exit.Put(slot, uint32(out.Attrs().Index)); err != nil {
			return err
		}
	}
	if err := objects.Maps["exits"].Put(uint32(in.Attrs().Index), exit); err != nil {
		return err
	}
	return netlink.LinkSetXdpFd(in, objects.Programs["wire"].FD())
}

// wires holds the maps of the attached wire program, found through its devices.
type wires struct {
	rules, injected, cuts *ebpf.Map
	index                 map[string]uint32 // device in the wires' namespace -> interface index
}

var errNoWires = errors.New(
	"this lab's links are direct, without wires: bring it up with wires to inject faults on links")

func (l *Lab) openWires() (*wires, error) {
	if l.options.Direct {
		return nil, errNoWires
	}
	nl, err := l.handle(wiresHost)
	if err != nil {
		return nil, err
	}
	defer nl.Close()
	devices, err := eintr.Value(nl.LinkList) // a dump is also interrupted if devices appear or disappear
	if err != nil {
		return nil, err
	}
	w := &wires{index: map[string]uint32{}}
	for _, d := range devices {
		a := d.Attrs()
		w.index[a.Name] = uint32(a.Index)
		if a.Xdp == nil || !a.Xdp.Attached || w.rules != nil {
			continue
		}
		if err := w.find(ebpf.ProgramID(a.Xdp.ProgId)); err != nil {
			w.close()
			return nil, fmt.Errorf("maps of the wires: %w", err)
		}
	}
	if w.rules == nil || w.injected == nil || w.cuts == nil {
		w.close()
		return nil, fmt.Errorf("lab %q has no wire program on its links: bring it down and up again", l.Name)
	}
	return w, nil
}

// find opens the maps of a program.
func (w *wires) find(id ebpf.ProgramID) error {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return err
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return err
		}
		info, err := m.Info()
		if err != nil {
			m.Close()
			return err
		}
		switch info.Name {
		case "rules":
			w.rules = m
		case "injected":
			w.injected = m
		case "cuts":
			w.cuts = m
		default:
			m.Close()
		}
	}
	return nil
}

func (w *wires) close() {
	for _, m := range []*ebpf.Map{w.rules, w.injected, w.cuts} {
		if m != nil {
			m.Close()
		}
	}
}

// count sums the counters of one direction over all CPUs.
func (w *wires) count(device string) (sum wireCount, err error) {
	var perCPU []wireCount
	if err := w.injected.Lookup(w.index[device], &perCPU); err != nil {
		return sum, err
	}
	for _, c := range perCPU {
		sum.Frames += c.Frames
		sum.Lost += c.Lost
		sum.Duplicated += c.Duplicated
		sum.Corrupted += c.Corrupted
		sum.Cut += c.Cut
	}
	return sum, nil
}
