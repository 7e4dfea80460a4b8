package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// PlaneRequest is a user's choice of the data plane.
type PlaneRequest struct {
	kind  string
	Addr  netip.AddrPort
	ports []string       // xdp: interfaces; none: all that are up
	pin   string         // xdp: directory on the BPF file system
	mode  string         // xdp: auto, native or generic
	nets  []netip.Prefix // xdp: whose messages to route
	pods  netip.Addr     // xdp: at which pods of this machine reach the node; not valid: none
	Chain chain.Options

	switchAt string // p4: address of a running switch; empty: start one
	device   uint64 // its number
	identity *security.Identity
}

// needsXDP reports whether the user asked for a feature that only xdp has.
func (r *PlaneRequest) needsXDP() bool {
	return len(r.ports) > 0 || len(r.nets) > 0 || r.pods.IsValid() || xdp.Mode(r.mode) == xdp.Native || xdp.Mode(r.mode) == xdp.Generic
}

// openPlane opens the requested plane. For "auto" it opens the fastest plane that works here and has the requested
// features. why is the reason of the choice, for the log.
func openPlane(r PlaneRequest) (plane dataplane.Plane, why string, err error) {
	if err := r.check(); err != nil {
		return nil, "", cli.UsageError(err)
	}
	switch r.kind {
	case cli.PlaneSoft:
		plane, err = OpenSoft(r)
		return plane, "asked for", err
	case cli.PlaneXDP:
		plane, err = openXDP(r)
		return plane, "asked for", err
	case cli.PlaneP4:
		plane, err = openP4(r)
		return plane, "asked for", err
	}
	return openAuto(r)
}

func openAuto(r PlaneRequest) (dataplane.Plane, string, error) {
	reason := ""
	switch {
	case os.Geteuid() != 0:
		reason = "xdp needs root"
	case r.Addr.Addr().IsLoopback() && len(r.ports) == 0:
		reason = "xdp needs a network interface, and this is a loopback address"
	default:
		plane, err := openXDP(r)
		if err == nil {
			return plane, "root, and the kernel can", nil
		}
		if xdp.Pinned(r.pin) || r.needsXDP() {
			return nil, "", err
		}
		reason = "xdp failed: " + err.Error()
	}
	if r.needsXDP() {
		return nil, "", fmt.Errorf("--port-if, --transit, --pod-addr and --mode %s or %s are for xdp, but %s", xdp.Native, xdp.Generic, reason)
	}
	plane, err := OpenSoft(r)
	return plane, reason, err
}

// The constructors below prevent that a nil *Plane becomes an interface that is not nil.

func OpenSoft(r PlaneRequest) (dataplane.Plane, error) {
	if r.pin != "" && xdp.Pinned(r.pin) {
		return nil, fmt.Errorf("a data plane of this node is in the kernel, pinned at %s, and would answer before any socket: "+
			"run it with --plane xdp, or end it with `netcraq node --remove --pin %s`", r.pin, r.pin)
	}
	plane, err := soft.Listen(r.Addr, r.Chain)
	if err != nil {
		return nil, err
	}
	return plane, nil
}

func openP4(r PlaneRequest) (dataplane.Plane, error) {
	o := p4.Options{Node: r.Addr, Ports: r.ports, Chain: r.Chain}
	if r.switchAt != "" {
		if len(r.ports) == 0 {
			return nil, cli.UsageError(fmt.Errorf("--switch %s: give its interfaces, each by --port-if, in the switch's order",
				r.switchAt))
		}
		o.Dial = func() (p4.Switch, error) {
			return cli.DialSwitch(context.Background(), r.switchAt, r.device, r.identity)
		}
	}
	plane, err := p4.Open(o)
	if err != nil {
		return nil, err
	}
	return plane, nil
}

func openXDP(r PlaneRequest) (dataplane.Plane, error) {
	plane, err := xdp.Open(xdp.Options{
		Node: r.Addr, Ports: r.ports, Chain: r.Chain, Pin: r.pin, Mode: xdp.Mode(r.mode), Transit: r.nets,
		Pods: r.pods,
	})
	if err != nil {
		removeEmptyPinRoot()
		return nil, err
	}
	return plane, nil
}

// PrivatePins reports whether process 1 of the machine or container has no mount of the file system that holds the
// directory. Objects pinned there end with the last process that has such a mount.
func PrivatePins(pin string) bool {
	var own unix.Stat_t
	if err := unix.Stat(pin, &own); err != nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil { // unknown: assume a mount
		return false
	}
	device := fmt.Sprintf("%d:%d", unix.Major(own.Dev), unix.Minor(own.Dev))
	for mount := range strings.Lines(string(mounts)) { // 36 35 0:31 / /sys/fs/bpf rw,relatime shared:9 - bpf bpf rw
		if fields := strings.Fields(mount); len(fields) > 2 && fields[2] == device {
			return false
		}
	}
	return true
}

// removeEmptyPinRoot removes the directory above the default pins, which xdp makes, if no node is pinned there.
func removeEmptyPinRoot() { _ = os.Remove(filepath.Dir(xdp.DefaultPin("any"))) }

// removePlane ends the data plane that is pinned in a directory.
func removePlane(log *slog.Logger, pin string) error {
	switch _, err := os.Stat(pin); {
	case errors.Is(err, os.ErrNotExist):
		log.Info("nothing to remove", "pin", pin)
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("only root can see whether a data plane is pinned: run it as root (sudo): %w", err)
	case err != nil:
		return fmt.Errorf("looking for a data plane to remove: %w", err)
	}
	release, err := xdp.Lock(pin)
	if locked := new(xdp.LockedError); errors.As(err, &locked) {
		return fmt.Errorf("nothing was removed: %w", locked)
	} else if err != nil {
		return err
	}
	defer func() { _ = release() }()
	if err := xdp.Remove(pin); err != nil {
		return fmt.Errorf("removing the data plane pinned at %s: %w", pin, err)
	}
	removeEmptyPinRoot()
	log.Info("data plane and its data removed", "pin", pin)
	return nil
}

// addSwitch adds the flags of a switch that another process runs.
func (r *PlaneRequest) addSwitch(f *pflag.FlagSet) {
	f.StringVar(&r.switchAt, "switch", "",
		"p4: `address` of a running netcraq switch with the same --port-if in the same order, to drive by P4Runtime "+
			"(default: run a switch inside this command)")
	f.Uint64Var(&r.device, "switch-device", cli.SwitchDevice, "p4: number of the switch")
}

// addTransit adds networks, separated by commas, to those whose messages the plane routes.
func (r *PlaneRequest) addTransit(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		net, err := netip.ParsePrefix(name)
		if err != nil {
			return fmt.Errorf("%q is no network, such as 192.0.2.0/24", name)
		}
		r.nets = append(r.nets, net)
	}
	return nil
}
