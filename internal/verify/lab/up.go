package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// firstOctet and lastOctet bound the /16s in 10.0.0.0/8 that labs use.
const firstOctet, lastOctet = 64, 127

// Up brings a lab up with its agents, or changes nothing. It needs root.
func Up(ctx context.Context, o Options) (*Lab, error) {
	o.Shards = max(o.Shards, 1)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := o.possible(); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearRemains(o); err != nil {
		return nil, err
	}
	l, err := build(ctx, o)
	if err != nil {
		if failed := remove(o.Name); failed != nil {
			err = fmt.Errorf("%w; and then: %w", err, failed)
		}
		return nil, fmt.Errorf("lab %q: %w", o.Name, err)
	}
	return l, nil
}

// possible reports missing requirements of a lab.
func (o *Options) possible() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab makes network namespaces and loads BPF programs, so it has to be run as root (sudo)")
	}
	return nil
}

// clearRemains returns an error if a lab of this name is up, and removes the remains of one whose owner
// has ended.
func clearRemains(o Options) error {
	_, err := os.Stat(dir(o.Name))
	if errors.Is(err, os.ErrNotExist) && len(namespaces(o.Name)) == 0 {
		return nil
	}
	s, err := readState(o.Name)
	if err == nil && s.Up {
		if l, err := Open(o.Name); err == nil {
			return alreadyUp(l)
		}
	}
	if err == nil && !s.Owned || err != nil && !errors.Is(err, os.ErrNotExist) {
		return remains(o.Name)
	}
	if err != nil && len(namespaces(o.Name)) > 0 {
		return remains(o.Name)
	}
	o.Progress("removing the remains of an earlier run that was killed")
	return remove(o.Name)
}

func alreadyUp(l *Lab) error {
	if owner, owned := l.Owner(); owned {
		return fmt.Errorf("lab %q %w, owned by process %d: stop it first, or choose another name",
			l.Name, ErrExists, owner.PID)
	}
	return fmt.Errorf("lab %q %w: use it, remove it with `netcraq lab down --name %s`, or choose another name",
		l.Name, ErrExists, l.Name)
}

func build(ctx context.Context, o Options) (*Lab, error) {
	octet, err := freeOctet()
	if err != nil {
		return nil, err
	}
	maker, err := ProcessOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	s := &state{Options: o, Octet: octet, Maker: maker, Owned: o.Owned, Commands: map[string][]string{},
		Agents: map[string]Process{}}
	l, err := newLab(s)
	if err != nil {
		return nil, err
	}
	for role, command := range map[Role]func(*Lab, Host) []string{RoleNode: o.Agent, RoleController: o.Controller} {
		for _, h := range l.Plan.With(role) {
			if command != nil {
				s.Commands[h.Name] = command(l, h)
			}
		}
	}
	if err := s.write(); err != nil {
		return nil, err
	}
	cluster, err := l.clusterOf().Marshal()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(l.ClusterFile(), cluster, 0o644); err != nil {
		return nil, err
	}
	if err := l.makeNetwork(ctx, o.Progress); err != nil {
		return nil, err
	}
	if err := l.startAgents(ctx, s, o.Progress); err != nil {
		return nil, err
	}
	if o.Publish != "" {
		if err := topology.PublishLink(o.Publish, l.ClusterFile()); err != nil && !errors.Is(err, topology.ErrTaken) {
			return nil, err
		}
	}
	s.Up = true
	return l, s.write()
}

func (l *Lab) makeNetwork(ctx context.Context, progress func(string)) error {
	hosts := l.Plan.Hosts
	progress(fmt.Sprintf("%d hosts, %d links in %v", len(hosts), len(l.Plan.Links), l.Plan.Subnet))
	if !l.options.Direct {
		if err := l.makeHost(Host{Name: wiresHost}); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if err := errors.Join(ctx.Err(), l.makeHost(h)); err != nil {
			return err
		}
	}
	for _, link := range l.Plan.Links {
		if err := errors.Join(ctx.Err(), l.makeLink(link)); err != nil {
			return err
		}
	}
	if !l.options.Direct {
		if err := l.makeWires(); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if err := errors.Join(ctx.Err(), l.setRoutes(h)); err != nil {
			return err
		}
	}
	return nil
}

// freeOctet returns a /16 that no lab uses and that this machine has no route to.
func freeOctet() (byte, error) {
	taken := map[byte]bool{}
	for _, name := range Names() {
		if s, err := readState(name); err == nil {
			taken[s.Octet] = true
		}
	}
	routes, err := eintr.Value(func() ([]netlink.Route, error) { return netlink.RouteList(nil, unix.AF_INET) })
	if err != nil {
		return 0, err
	}
	for octet := byte(firstOctet); octet <= lastOctet; octet++ {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, octet, 0, 0}), 16)
		free := !taken[octet]
		for _, r := range routes {
			if dst, ok := prefixOf(r.Dst); ok && dst.Bits() > 0 && dst.Overlaps(subnet) {
				free = false
			}
		}
		if free {
			return octet, nil
		}
	}
	return 0, fmt.Errorf("no free network: every 10.%d.0.0/16 to 10.%d.0.0/16 is in use", firstOctet, lastOctet)
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones), ok
}

// Down removes a lab or its remains and reports whether there was anything. It ends every process
// in the lab's namespaces.
func Down(ctx context.Context, name string) (bool, error) {
	if !validName.MatchString(name) {
		return false, fmt.Errorf("%q cannot be a lab's name", name)
	}
	if os.Geteuid() != 0 {
		return false, errors.New("removing a lab has to be done as root (sudo)")
	}
	unlock, err := lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	_, err = os.Stat(dir(name))
	if errors.Is(err, os.ErrNotExist) && len(namespaces(name)) == 0 {
		return false, nil
	}
	return true, remove(name)
}

// remove finds everything by name, so that it can finish the work of any interrupted command. It
// removes the state file last.
func remove(name string) error {
	var agents []Process
	if s, err := readState(name); err == nil {
		agents = slices.Collect(maps.Values(s.Agents))
		s.Up = false
		if s.Maker, err = ProcessOf(os.Getpid()); err != nil {
			return err
		}
		if err := s.write(); err != nil {
			return err
		}
		if err := topology.WithdrawLink(s.Options.Publish, clusterFile(name)); err != nil {
			return err
		}
	}
	spaces := namespaces(name)
	processes, err := processesIn(spaces)
	if err != nil {
		return err
	}
	// The state file lists agents whose namespaces have lost their names.
	for _, p := range append(processes, agents...) {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	if err := errors.Join(removeStrayPins(spaces), removePins(filepath.Join(pinRoot, name))); err != nil {
		return err
	}
	// Not by l.device: the plan may be unreadable.
	for i := range spineCount {
		if dev, err := netlink.LinkByName(rootDevice(name, i)); err == nil {
			if err := netlink.LinkDel(dev); err != nil {
				return fmt.Errorf("remove device %s: %w", rootDevice(name, i), err)
			}
		}
	}
	for _, path := range spaces {
		if err := removeNamespace(path); err != nil {
			return err
		}
	}
	for _, path := range []string{filepath.Join(dataRoot, name), dir(name)} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	os.Remove(dataRoot) // fails while there are other labs
	os.Remove(labsDir)  // fails while there are other labs
	return nil
}

// removePins removes a directory of pins and the parent directories that become empty.
func removePins(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove pins: %w", err)
	}
	for above := filepath.Dir(path); above != filepath.Dir(filepath.Dir(pinRoot)); above = filepath.Dir(above) {
		if os.Remove(above) != nil {
			break
		}
	}
	return nil
}
