package conformance

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/wire"
)

// Names in vectors: "me" is the node under test, n1, n3, n4 ... are other nodes, c1, c2 ... clients.
const (
	clientHostOffset = 100   // c1 has the address .101
	clientPortBase   = 50000 // and the port 50001
	maxNodes         = 99
	maxClients       = 100
)

// Node is the address of the n-th node. The second is the one under test.
func Node(n int) netip.AddrPort { return netip.AddrPortFrom(host(n), wire.Port) }

// Client is the address of the n-th client.
func Client(n int) netip.AddrPort {
	return netip.AddrPortFrom(host(clientHostOffset+n), uint16(clientPortBase+n))
}

func host(n int) netip.Addr {
	b := Net.Addr().As4()
	b[3] = byte(n)
	return netip.AddrFrom4(b)
}

func parseHost(name string) (netip.AddrPort, error) {
	if name == "me" {
		return Me, nil
	}
	if n, err := strconv.Atoi(strings.TrimLeft(name, "nc")); err == nil && n > 0 {
		switch {
		case name[0] == 'n' && n <= maxNodes:
			return Node(n), nil
		case name[0] == 'c' && n <= maxClients:
			return Client(n), nil
		}
	}
	if a, err := netip.ParseAddrPort(name); err == nil {
		return a, nil
	}
	return netip.AddrPort{}, fmt.Errorf("%q is no host: want me, n1 to n%d, c1 to c%d or an address and port", name,
		maxNodes, maxClients)
}

func hostName(a netip.AddrPort) string {
	if a == Me {
		return "me"
	}
	if a.Addr().Is4() && Net.Contains(a.Addr()) {
		b := a.Addr().As4()
		n := int(b[3])
		if n <= maxNodes && a == Node(n) {
			return "n" + strconv.Itoa(n)
		}
		if n -= clientHostOffset; n > 0 && a == Client(n) {
			return "c" + strconv.Itoa(n)
		}
	}
	return a.String()
}

// keyNames remembers the names under which a case speaks of keys.
type keyNames map[wire.Key]string

func (n keyNames) parse(s string) (wire.Key, error) {
	if k, err := wire.ParseKey(s); err == nil {
		return k, nil
	}
	k, err := wire.HashKey([]byte(s))
	if err == nil {
		n[k] = s
	}
	return k, err
}

func (n keyNames) name(k wire.Key) string {
	if s, ok := n[k]; ok {
		return s
	}
	return k.String()
}

// nameOfLow is the name of the key whose lower half is lo.
func (n keyNames) nameOfLow(lo uint64) string {
	for k, name := range n {
		if k.Lo == lo {
			return name
		}
	}
	return fmt.Sprintf("%#x", lo)
}
