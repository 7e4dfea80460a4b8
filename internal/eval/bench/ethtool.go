package bench

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// setGRO enables generic receive offload on an interface of the calling thread's namespace.
func setGRO(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{unix.ETHTOOL_SGRO, 1}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	err = eintr.Retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("enable GRO on %s: %w", name, err)
	}
	return nil
}
