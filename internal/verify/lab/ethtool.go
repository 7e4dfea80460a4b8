package lab

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Numbers of linux/ethtool.h that x/sys does not have.
const (
	ethtoolSetTxChecksum = 0x17
	ethtoolSetGRO        = 0x2c
)

// setOffloads prepares an end of a link for XDP. GRO gives the device the NAPI context without which frames that
// XDP sends to it are dropped; only a change of GRO while the device is up tells its peer that it now may redirect
// to it, hence off and on again. Checksums must be complete when a packet leaves: a frame that passes an XDP redirect
// forgets that its checksum was left for the hardware. The calling thread must be in the device's namespace.
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
