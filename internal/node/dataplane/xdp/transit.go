package xdp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MaxTransit is how many networks [Options].Transit may name.
const MaxTransit = 4

// nqNet mirrors struct nq_net.
type nqNet struct {
	Addr, Mask [4]byte
}

func checkTransit(nets []netip.Prefix) error {
	if len(nets) > MaxTransit {
		return fmt.Errorf("%d networks for transit: name at most %d", len(nets), MaxTransit)
	}
	for _, net := range nets {
		if !net.IsValid() || !net.Addr().Is4() {
			return fmt.Errorf("transit: %v is no IPv4 network", net)
		}
	}
	return nil
}

// transit sets the constants for [Options].Transit, which are checked.
func (c constants) transit(nets []netip.Prefix) {
	var table [MaxTransit]nqNet
	for i, net := range nets {
		table[i].Addr = net.Masked().Addr().As4()
		binary.BigEndian.PutUint32(table[i].Mask[:], ^(^uint32(0) >> net.Bits()))
	}
	c["nq_transit"] = uint8(len(nets))
	c["nq_transit_nets"] = table
}
