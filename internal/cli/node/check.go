package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// check checks the flags and the rights of this process, before the node waits for a controller.
func (flags *nodeFlags) check() error {
	err := errors.Join(flags.limit(), flags.join.check(flags), flags.plane.check(), checkTCP("--api", flags.api),
		checkTCP("--metrics", flags.metrics))
	if len(flags.join.controllers) > 0 {
		err = errors.Join(err, security.CheckNodeName(flags.name))
	}
	if err != nil {
		return cli.UsageError(err)
	}
	if flags.plane.kind == cli.PlaneXDP {
		return xdp.Permitted()
	}
	return nil
}

// check returns an error if the data plane that was asked for does not exist.
func (r *PlaneRequest) check() error {
	switch r.kind {
	case cli.PlaneAuto, cli.PlaneSoft, cli.PlaneXDP, cli.PlaneP4:
	default:
		return fmt.Errorf("--plane %q: want %s, %s, %s or %s", r.kind, cli.PlaneAuto, cli.PlaneSoft, cli.PlaneXDP, cli.PlaneP4)
	}
	if r.switchAt != "" && r.kind != cli.PlaneP4 {
		return fmt.Errorf("--switch %s is for --plane %s", r.switchAt, cli.PlaneP4)
	}
	switch xdp.Mode(r.mode) {
	case "", xdp.Auto, xdp.Native, xdp.Generic:
		return nil
	}
	return fmt.Errorf("--mode %q: want %s, %s or %s", r.mode, xdp.Auto, xdp.Native, xdp.Generic)
}

// checkTCP returns an error if a flag that was given has no address and port.
func checkTCP(flag, address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s %q is not an address and port, such as 192.0.2.1:9414", flag, address)
	}
	return nil
}

// warnElsewhere names addresses of other machines, on which the node cannot start. The addresses may come while it waits for
// a controller.
func (flags *nodeFlags) warnElsewhere(log *slog.Logger, api string) {
	own, err := net.InterfaceAddrs()
	if err != nil || flags.plane.kind == cli.PlaneP4 { // a switch has addresses of its own
		return
	}
	for _, one := range []struct{ flag, address string }{
		{"--addr", flags.plane.Addr.String()}, {"--api", api}, {"--metrics", flags.metrics},
	} {
		at, err := netip.ParseAddrPort(one.address)
		if err == nil && !isOwn(at.Addr(), own) {
			log.Warn("this machine does not have the address, and the node needs it", "node", flags.name, one.flag, one.address)
			return
		}
	}
}

// isOwn reports whether this machine, whose interfaces have these addresses, can serve at an address.
func isOwn(a netip.Addr, own []net.Addr) bool {
	if a.IsUnspecified() || a.IsLoopback() {
		return true
	}
	for _, one := range own {
		if network, ok := one.(*net.IPNet); ok && network.IP.Equal(a.AsSlice()) {
			return true
		}
	}
	return false
}
