package soft

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/wire"
)

// socketBytes is how much the kernel is asked to queue in each direction.
const socketBytes = 4 << 20

// setTTL makes every packet of the node leave with the time to live that the specification wants.
func setTTL(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, wire.ReplyTTL)
	})
	return errors.Join(err, failed)
}

// explain adds advice for the user to an error of opening a socket.
func explain(addr netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("UDP %v is taken, probably by another node: stop it, or choose another address with --addr", addr)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%v is not an address of this machine: add it to an interface, or choose another with --addr", addr.Addr())
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("UDP port %d is reserved for root: choose a port of 1024 or more with --addr", addr.Port())
	}
	return fmt.Errorf("UDP %v: %w", addr, err)
}
