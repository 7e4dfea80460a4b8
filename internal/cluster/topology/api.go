package topology

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/wire"
)

// APIPort is the TCP port of a node's agent, at the node's own address, unless the cluster file says otherwise.
const APIPort = wire.Port + 1

// ControllerPort is the TCP port of a controller, unless configured otherwise.
const ControllerPort = wire.Port + 2

// APIAddr is where the node's agent listens.
func (n Node) APIAddr() string {
	if n.API != "" {
		return n.API
	}
	return DefaultAPI(n.Addr)
}

// DefaultAPI returns the default address of the agent of a node at addr.
func DefaultAPI(addr netip.AddrPort) string {
	return netip.AddrPortFrom(addr.Addr(), APIPort).String()
}

// ControllerAddr is the TCP address of a controller, as users give it: without a port it is [ControllerPort].
func ControllerAddr(given string) (string, error) {
	host, port, err := net.SplitHostPort(given)
	if err != nil {
		host, port = strings.Trim(given, "[]"), strconv.Itoa(ControllerPort)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, " /,") {
		return "", fmt.Errorf("%q is not a host and port, such as 192.0.2.1:%d", given, ControllerPort)
	}
	return net.JoinHostPort(host, port), nil
}
