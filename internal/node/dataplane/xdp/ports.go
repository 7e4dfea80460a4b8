package xdp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/bpflink"
	"github.com/netcraq/netcraq/wire"
)

// Mode is how the program is attached to ports.
type Mode string

const (
	Auto    Mode = "auto"    // native if the driver can, else generic
	Native  Mode = "native"  // in the driver
	Generic Mode = "generic" // in the network stack: any driver, but slower
)

const (
	headersBytes = frame.IPv4Bytes + frame.UDPBytes // before a message
	maxPorts     = 16
)

// port is one interface the program is attached to.
type port struct {
	name  string
	index int
	mac   [6]byte
	xdp   attachment
	grow  attachment // the kernel may lack its kind
}

// findPorts resolves the names, or finds all Ethernet interfaces that are up if there are none.
func findPorts(names []string, o chain.Options) ([]port, error) {
	var ports []port
	if len(names) == 0 {
		all, err := net.Interfaces()
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 && len(i.HardwareAddr) == 6 {
				names = append(names, i.Name)
			}
		}
	}
	for _, name := range names {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", name, err)
		}
		if err := checkMTU(i, o); err != nil {
			return nil, err
		}
		p := port{name: name, index: i.Index}
		copy(p.mac[:], i.HardwareAddr)
		ports = append(ports, p)
	}
	if len(ports) == 0 || len(ports) > maxPorts {
		return nil, fmt.Errorf("a node has 1 to %d ports, not %d: name them", maxPorts, len(ports))
	}
	return ports, nil
}

// checkMTU makes sure that the longest message fits an interface.
func checkMTU(i *net.Interface, o chain.Options) error {
	if need := headersBytes + wire.ChainBytes + o.CellBytes; i.MTU < need {
		return fmt.Errorf("port %s: its MTU of %d is too small for values of %d bytes: raise it to %d, or start with --cell-bytes %d",
			i.Name, i.MTU, o.CellBytes, need, i.MTU-headersBytes-wire.ChainBytes)
	}
	return nil
}

// attachment is a program on a port.
type attachment struct {
	link  link.Link
	taken bool // it was a predecessor's
}

// takeOver puts the program in the place of a predecessor's, if one is pinned there and its interface still exists.
func (a *attachment) takeOver(program *ebpf.Program, path string) bool {
	old, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return false
	}
	if err := old.Update(program); err != nil {
		old.Close()
		os.Remove(path) // of an interface that is gone
		return false
	}
	a.link, a.taken = old, true
	return true
}

// close leaves an attachment to its pin.
func (a *attachment) close() error {
	if a.link == nil {
		return nil
	}
	return a.link.Close()
}

// undo ends an attachment, unless it was a predecessor's: that goes on answering.
func (a *attachment) undo(pin string) {
	if a.link == nil {
		return
	}
	if pin != "" && !a.taken {
		_ = a.link.Unpin()
	}
	a.link.Close()
	a.link = nil
}

// set puts the program in the place of a predecessor's, or attaches it anew and leaves it pinned under that name.
func (a *attachment) set(program *ebpf.Program, pin, name string, attach func() (link.Link, error)) error {
	path := filepath.Join(pin, name)
	if pin != "" && a.takeOver(program, path) {
		return nil
	}
	var err error
	if a.link, err = attach(); err != nil || pin == "" {
		return err
	}
	return a.link.Pin(path)
}

// attach puts the programs on a port, in the place of a predecessor's if there are any.
func (p *port) attach(o *objects, mode Mode, pin string) error {
	if err := p.attachXDP(o, mode, pin); err != nil {
		return err
	}
	err := p.grow.set(o.Grow, pin, growPin+p.name, func() (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{Program: o.Grow, Interface: p.index, Attach: ebpf.AttachTCXIngress})
	})
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) { // before Linux 6.6 the agent sends long answers
		return fmt.Errorf("port %s: %w", p.name, err)
	}
	return nil
}

func (p *port) attachXDP(o *objects, mode Mode, pin string) error {
	flags := link.XDPDriverMode
	if mode == Generic {
		flags = link.XDPGenericMode
	}
	err := p.xdp.set(o.Ingress, pin, portPin+p.name, func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Program: o.Ingress, Interface: p.index, Flags: flags})
	})
	if err != nil {
		return fmt.Errorf("port %s: %w", p.name, err)
	}
	return nil
}

// attachFitting attaches to every port in a mode in which answers leave.
func attachFitting(ports []port, o *objects, mode Mode, pin string) (Mode, string, error) {
	fit, why, err := fitting(ports, mode)
	if err != nil {
		return mode, "", err
	}
	attached, slower, err := attachAll(ports, o, fit, pin)
	if why == "" {
		why = slower
	}
	return attached, why, err
}

// attachAll attaches to every port in one mode. It returns the mode, and why it is not native if it should have been.
func attachAll(ports []port, o *objects, mode Mode, pin string) (Mode, string, error) {
	first := mode
	if mode == Auto {
		first = Native
	} else if err := detachOtherMode(ports, mode, pin); err != nil {
		return mode, "", err
	}
	err := attachEach(ports, o, first, pin)
	if err == nil {
		attached, why := attachedMode(ports), ""
		if attached != first {
			why = "it was attached in this mode before; --mode " + string(first) + " attaches it anew"
		}
		return attached, why, nil
	}
	detachAll(ports, pin)
	if mode != Auto {
		if mode == Native && !errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%w: the driver may not support XDP: use --mode generic", err)
		}
		return mode, "", err
	}
	why := err.Error()
	if err := attachEach(ports, o, Generic, pin); err != nil {
		detachAll(ports, pin)
		return Generic, "", err
	}
	return Generic, why, nil
}

func attachEach(ports []port, o *objects, mode Mode, pin string) error {
	for i := range ports {
		if err := ports[i].attach(o, mode, pin); err != nil {
			return err
		}
	}
	return nil
}

// detachAll undoes attachEach.
func detachAll(ports []port, pin string) {
	for i := range ports {
		ports[i].xdp.undo(pin)
		ports[i].grow.undo(pin)
	}
}

// detachOtherMode ends attachments of a predecessor that are not in the mode that the user insists on.
func detachOtherMode(ports []port, mode Mode, pin string) error {
	if pin == "" {
		return nil
	}
	for i := range ports {
		path := filepath.Join(pin, portPin+ports[i].name)
		if _, err := os.Stat(path); err != nil || attachedMode(ports[i:i+1]) == mode {
			continue
		}
		if err := bpflink.Detach(path); err != nil {
			return err
		}
	}
	return nil
}

// detachDropped ends attachments of a predecessor to interfaces that are no ports any more.
func detachDropped(ports []port, pin string) error {
	keep := make(map[string]bool)
	for _, p := range ports {
		keep[portPin+p.name], keep[growPin+p.name] = true, true
	}
	names, err := attachments(pin)
	if err != nil {
		return err
	}
	for _, name := range names {
		if keep[name] {
			continue
		}
		if err := bpflink.Detach(filepath.Join(pin, name)); err != nil {
			return err
		}
	}
	return nil
}

// attachedMode asks the kernel, because a link taken over keeps the mode it was made with.
func attachedMode(ports []port) Mode {
	const attachedGeneric = 2 // XDP_ATTACHED_SKB
	for _, p := range ports {
		l, err := netlink.LinkByIndex(p.index)
		if err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.AttachMode == attachedGeneric {
			return Generic
		}
	}
	return Native
}

// loopback is the device on whose behalf the program looks up the way of the node's own messages.
const loopback = "lo"

// enableForwarding lets the FIB answer on behalf of this device: the kernel's look-up from XDP refuses where forwarding
// is off. On the loopback device that changes nothing else; ports are left as they are.
func enableForwarding(name string) error {
	path := filepath.Join("/proc/sys/net/ipv4/conf", name, "forwarding")
	have, err := os.ReadFile(path)
	if err != nil || (len(have) > 0 && have[0] == '1') {
		return err
	}
	if err := os.WriteFile(path, []byte("1"), 0); err != nil {
		return fmt.Errorf("turning on IPv4 forwarding for %s: %w", name, err)
	}
	return nil
}
