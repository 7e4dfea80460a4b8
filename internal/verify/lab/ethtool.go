package lab

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Numbers of linux/ethtool.h that x/sys lacks.
const (
	ethtoolSetTxChecksum = 0x17
	ethtoolSetGRO        = 0x2c
)

// setOffloads prepares an end of a link for XDP. Two settings are needed:
//
// GRO gives the device a NAPI context; without it, frames that XDP sends to the device are dropped.
// The peer learns that it may redirect to the device only when GRO changes while the device is up.
// So setOffloads turns GRO off and on.
//
// Checksums must be complete when a packet leaves: after an XDP redirect, the kernel no longer
// knows that the checksum was left to the hardware. The calling thread must be in the device's
// namespace.
func setOffloads(device string) error {
	for _, on := range []uint32{0, 1} {
		if err := ethtool(device, ethtoolSetGRO, on); err != nil {
			return fmt.Errorf("%s: set GRO: %w", device, err)
		}
	}
	if err := ethtool(device, ethtoolSetTxChecksum, 0); err != nil {
		return fmt.Errorf("%s: transmit checksums in software: %w", device, err)
	}
	return nil
}

func ethtool(device string, command, data uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{command, data}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the kernel copies a whole struct ifreq
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	err = eintr.Retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	runtime.KeepAlive(&value)
	return err
}
