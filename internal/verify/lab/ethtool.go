package lab

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/platform/ethtool"
)

// SetOffloads prepares an end of a link for XDP. Two settings are needed:
//
// GRO gives the device a NAPI context; without it, frames that XDP sends to the device are dropped.
// The peer learns that it may redirect to the device only when GRO changes while the device is up.
// So SetOffloads turns GRO off and on.
//
// Checksums must be complete when a packet leaves: after an XDP redirect, the kernel no longer
// knows that the checksum was left to the hardware. The calling thread must be in the device's
// namespace.
func SetOffloads(device string) error {
	for _, on := range []bool{false, true} {
		if err := ethtool.SetGRO(device, on); err != nil {
			return fmt.Errorf("%s: set GRO: %w", device, err)
		}
	}
	if err := ethtool.SetTxChecksum(device, false); err != nil {
		return fmt.Errorf("%s: transmit checksums in software: %w", device, err)
	}
	return nil
}
