package xdp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/bpflink"
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
	late  bool       // it became a port after the start
	xdp   attachment // without a link after a failure: then it is attached again
	grow  attachment // the kernel may lack its kind
}

// checkMTU makes sure that the longest message fits an interface.
func checkMTU(i *net.Interface, o chain.Options) error {
	if why := smallMTU(i.Name, i.MTU, o); why != "" {
		return errors.New(why)
	}
	return nil
}

// attachment is a program on a port.
type attachment struct {
	link  link.Link
	taken bool // it was a predecessor's
}

// takeOver puts the program in the place of a predecessor's, if one is pinned there and is on that interface. One that is
// on another interface, or whose interface is gone, ends.
func (a *attachment) takeOver(program *ebpf.Program, path string, index int) bool {
	old, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return false
	}
	a.link = old
	if at, err := a.where(); err == nil && at.index == index {
		if err := old.Update(program); err == nil {
			a.taken = true
			return true
		}
	}
	_ = a.end(path)
	return false
}

// where returns where the attachment is, without its name.
func (a *attachment) where() (portAttachment, error) {
	if a.link == nil {
		return portAttachment{}, nil
	}
	info, err := a.link.Info()
	if err != nil {
		return portAttachment{}, err
	}
	h := portAttachment{program: uint32(info.Program)}
	if on := info.XDP(); on != nil {
		h.index = int(on.Ifindex)
	} else if on := info.TCX(); on != nil {
		h.index = int(on.Ifindex)
	}
	return h, nil
}

// end ends an attachment at once, even if other processes hold it open. pin is empty, or where it may be pinned. That the
// interface is gone is no error.
func (a *attachment) end(pin string) error {
	if a.link == nil {
		return nil
	}
	var errs []error
	if pin != "" {
		errs = append(errs, a.link.Unpin())
	}
	errs = append(errs, a.link.Detach(), a.link.Close())
	*a = attachment{}
	for _, err := range errs {
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOLINK) {
			return err
		}
	}
	return nil
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
func (a *attachment) set(program *ebpf.Program, pin, name string, index int, attach func() (link.Link, error)) error {
	path := filepath.Join(pin, name)
	if pin != "" && a.takeOver(program, path, index) {
		return nil
	}
	var err error
	if a.link, err = attach(); err != nil || pin == "" {
		return err
	}
	return a.link.Pin(path)
}

// setGrow does the same with nq_grow at tc ingress. Before Linux 6.6 it does nothing: the agent does what that would do.
func (a *attachment) setGrow(o *objects, pin, name string, index int) error {
	err := a.set(o.Grow, pin, name, index, func() (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{Program: o.Grow, Interface: index, Attach: ebpf.AttachTCXIngress})
	})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil
	}
	return err
}

// attach puts the programs on a port, in the place of a predecessor's if there are any.
func (p *port) attach(o *objects, mode Mode, pin string) error {
	if err := p.attachXDP(o, mode, pin); err != nil {
		return err
	}
	if err := p.grow.setGrow(o, pin, growPin+p.name, p.index); err != nil {
		return fmt.Errorf("port %s: %w", p.name, err)
	}
	return nil
}

func (p *port) attachXDP(o *objects, mode Mode, pin string) error {
	flags := link.XDPDriverMode
	if mode == Generic {
		flags = link.XDPGenericMode
	}
	err := p.xdp.set(o.Ingress, pin, portPin+p.name, p.index, func() (link.Link, error) {
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
		attached, why := first, ""
		if len(ports) > 0 {
			attached = attachedMode(ports)
		}
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
	keep := map[string]bool{growPin + loopback: true}
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
const (
	loopback      = "lo"
	loopbackIndex = 1 // in every network namespace
)

// attachLoopback lets nq_grow answer heartbeats and plain READs from this machine, which pass no port.
func (p *Plane) attachLoopback() error {
	if slices.ContainsFunc(p.ports, func(q port) bool { return q.name == loopback }) {
		return nil // it is there
	}
	if err := p.lo.setGrow(p.objects, p.pin, growPin+loopback, loopbackIndex); err != nil {
		return fmt.Errorf("the loopback device: %w", err)
	}
	return nil
}

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
