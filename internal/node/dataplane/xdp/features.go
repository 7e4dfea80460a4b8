package xdp

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/netdev.h.
const (
	netdevFamily      = "netdev"
	netdevDevGet      = 1
	netdevIfindex     = 1
	netdevXDPFeatures = 3

	featureBasic    = 1 << 0 // XDP_DROP, XDP_PASS, XDP_TX
	featureRedirect = 1 << 1
	nativeFeatures  = featureBasic | featureRedirect
)

// anyNode stands for a node's address where programs are loaded on trial.
var anyNode = netip.MustParseAddrPort("192.0.2.1:4411")

var errNoFeatures = errors.New("the kernel does not tell what drivers can")

// xdpFeatures asks the kernel what the driver of an interface can, from Linux 6.3 on.
func xdpFeatures(index int) (uint64, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return 0, err
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	request.AddData(&nl.Genlmsg{Command: netdevDevGet, Version: 1})
	request.AddData(nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(index))))
	answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, err
	}
	for _, answer := range answers {
		if len(answer) < nl.SizeofGenlmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, err
		}
		for _, a := range attributes {
			if a.Attr.Type == netdevXDPFeatures && len(a.Value) >= 8 {
				return binary.NativeEndian.Uint64(a.Value), nil
			}
		}
	}
	return 0, errNoFeatures
}
