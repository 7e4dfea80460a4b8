package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf/link"

	"github.com/netcraq/netcraq/internal/platform/bpflink"
)

// podPort is the host's end of a pod's veth pair. The program answers there what it can answer in place. It never sends
// by such a port on its own: what leaves for a pod from elsewhere goes through the kernel or the agent. So pods need no
// entry in the tables of ports, which have room for few.
type podPort struct {
	port
	mode Mode
	why  string // why the mode is not native; empty if it is
}

func checkPods(node netip.AddrPort, pods netip.Addr) error {
	switch {
	case !pods.IsValid():
		return nil
	case !pods.Is4():
		return fmt.Errorf("the address for pods is %v: the XDP plane speaks IPv4 only", pods)
	case pods == node.Addr(), pods.IsUnspecified(), pods.IsMulticast(), pods.IsLoopback():
		return fmt.Errorf("%v cannot be the address for pods: choose one that no machine has, such as 169.254.77.1", pods)
	}
	return nil
}

// pods sets the constant for [Options].Pods, which is checked.
func (c constants) pods(addr netip.Addr) {
	if addr.IsValid() {
		c["nq_pod_addr"] = addr.As4()
	}
}

// AttachPod lets the program answer on the host's end of a pod's veth pair, or makes sure that it does. native says
// that the pod's end takes frames that a driver sends (XDP_TX): it has a program of its own. Without that, and
// where the node's own ports are in generic mode, which cannot be reached natively, the mode is generic. It returns the
// mode and, unless that is native, the reason.
func (p *Plane) AttachPod(name string, native bool) (mode, why string, err error) {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", "", fmt.Errorf("port %s: %w", name, err)
	}
	if have := p.pods[name]; have != nil && have.index == i.Index {
		return string(have.mode), have.why, nil
	}
	if p.pods[name] != nil { // of an earlier interface of that name
		if err := p.detachPod(name); err != nil {
			return "", "", err
		}
	}
	if err := checkMTU(i, p.chain); err != nil {
		return "", "", err
	}
	pod := &podPort{port: port{name: name, index: i.Index}, mode: Native}
	switch info := p.Info(); {
	case info.Mode != string(Native):
		pod.mode, pod.why = Generic, "the node's own ports are in generic mode"
	case !native:
		pod.mode, pod.why = Generic, "the pod's end of the veth pair has no native XDP program, so the driver cannot send answers there"
	}
	if err := pod.attachPod(p.objects, p.pin); err != nil {
		return "", "", err
	}
	p.pods[name] = pod
	return string(pod.mode), pod.why, nil
}

// attachPod attaches the programs, in the place of a predecessor's if there are any. It changes mode and why if the
// kernel refuses native mode.
func (pod *podPort) attachPod(o *objects, pin string) error {
	if err := pod.attachIn(o, pin); err != nil {
		pod.xdp.undo(pin)
		if pod.mode == Generic {
			return err
		}
		pod.mode, pod.why = Generic, err.Error()
		if err := pod.attachIn(o, pin); err != nil {
			return err
		}
	}
	if err := pod.grow.setGrow(o, pin, podGrowPin+pod.name, pod.index); err != nil {
		pod.xdp.undo(pin)
		return fmt.Errorf("port %s: %w", pod.name, err)
	}
	return nil
}

func (pod *podPort) attachIn(o *objects, pin string) error {
	flags := link.XDPDriverMode
	if pod.mode == Generic {
		flags = link.XDPGenericMode
	}
	path := filepath.Join(pin, podPortPin+pod.name)
	if pin != "" && attachedMode([]port{pod.port}) != pod.mode {
		if err := bpflink.Detach(path); err != nil {
			return err
		}
	}
	err := pod.xdp.set(o.Ingress, pin, podPortPin+pod.name, pod.index, func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Program: o.Ingress, Interface: pod.index, Flags: flags})
	})
	if err != nil {
		return fmt.Errorf("port %s: %w", pod.name, err)
	}
	return nil
}

// DetachPod ends what AttachPod began, also in an earlier process. Its interface may be gone.
func (p *Plane) DetachPod(name string) error {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	return p.detachPod(name)
}

func (p *Plane) detachPod(name string) error {
	var errs []error
	if pod := p.pods[name]; pod != nil {
		delete(p.pods, name)
		for _, a := range []attachment{pod.xdp, pod.grow} {
			if a.link != nil && p.pin == "" {
				errs = append(errs, a.link.Detach())
			}
			errs = append(errs, a.close())
		}
	}
	if p.pin != "" {
		for _, prefix := range []string{podPortPin, podGrowPin} {
			errs = append(errs, bpflink.Detach(filepath.Join(p.pin, prefix+name)))
		}
	}
	return errors.Join(errs...)
}

// Pods lists the interfaces of pods that the program is attached to, by this process or an earlier one.
func (p *Plane) Pods() ([]string, error) {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	var names []string
	for name := range p.pods {
		names = append(names, name)
	}
	if p.pin != "" {
		entries, err := os.ReadDir(p.pin)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name, ok := strings.CutPrefix(e.Name(), podPortPin); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// detachPods ends all that earlier processes attached to pods.
func (p *Plane) detachPods() error {
	names, err := p.Pods()
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, p.DetachPod(name))
	}
	return errors.Join(errs...)
}

// podsFallBack attaches pods' ports in generic mode, as the node's own: a frame that the program redirects from a
// native port leaves a generic one only if the driver can send it. The caller holds attaching.
func (p *Plane) podsFallBack(why string) error {
	var errs []error
	for _, pod := range p.pods {
		if pod.mode == Generic {
			continue
		}
		if p.pin == "" && pod.xdp.link != nil {
			errs = append(errs, pod.xdp.link.Detach())
		}
		errs = append(errs, pod.xdp.close())
		pod.xdp, pod.mode, pod.why = attachment{}, Generic, why
		errs = append(errs, pod.attachIn(p.objects, p.pin))
	}
	return errors.Join(errs...)
}

func (p *Plane) closePods() error {
	var errs []error
	for _, pod := range p.pods {
		errs = append(errs, pod.xdp.close(), pod.grow.close())
	}
	return errors.Join(errs...)
}
